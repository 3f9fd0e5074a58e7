#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "../text/bar.h"
#include "../text/text_table.h"
#include "stage_rows.h"
#include "terminal_sections.h"
#include "time_kinds.h"

namespace stepcast::report {
namespace {

using result::Report;
using result::StageBreakdown;
using Align = TextTable::Align;

using Shares = std::array<double, kTimeKinds.size()>;  // seconds

Shares shares_of(const StageBreakdown& stage) {
  Shares shares{};
  for (std::size_t i = 0; i < kTimeKinds.size(); ++i) {
    shares[i] = to_seconds(result::part_of(stage, kTimeKinds[i].category));
  }
  return shares;
}

double total(const Shares& shares) { return std::accumulate(shares.begin(), shares.end(), 0.0); }

double sum_of(const Shares& shares, TimeKind::Sum sum) {
  double seconds = 0;
  for (std::size_t i = 0; i < kTimeKinds.size(); ++i) {
    seconds += kTimeKinds[i].sum == sum ? shares[i] : 0;
  }
  return seconds;
}

// The stages that have a row, by name, and their mean where some have none.
std::vector<std::pair<std::string, Shares>> named_rows(const Report& report,
                                                       const std::vector<Shares>& all) {
  const auto busy = [&](std::size_t i) {
    return sum_of(all[i], TimeKind::Sum::compute) + sum_of(all[i], TimeKind::Sum::exposed);
  };
  std::size_t worst = 0;
  for (std::size_t i = 1; i < all.size(); ++i) {
    worst = busy(i) > busy(worst) ? i : worst;
  }
  std::vector<std::pair<std::string, Shares>> rows;
  for (const std::size_t i : rows_of_stages(all.size(), worst)) {
    const bool marked = all.size() > kMaxStages && i == worst;
    rows.emplace_back(fmt::format("{}{}", report.breakdown[i].stage, marked ? " (busiest)" : ""),
                      all[i]);
  }
  if (all.size() > kMaxStages) {
    rows.emplace_back(fmt::format("mean of {}", all.size()), mean_of(all));
  }
  return rows;
}

}  // namespace

std::string breakdown_text(const Report& report, const Paint& paint, int width) {
  if (report.breakdown.empty()) {
    return "";
  }
  std::vector<Shares> all;
  double longest = 0;
  for (const StageBreakdown& stage : report.breakdown) {
    all.push_back(shares_of(stage));
    longest = std::max(longest, total(all.back()));
  }
  const Shares mean = mean_of(all);
  const auto rows = named_rows(report, all);
  TextTable table({{"stage", Align::left},
                   {"", Align::left, true},
                   {"compute"},
                   {"exposed"},
                   {"bubble"},
                   {"rest"}});
  std::vector<BarKind> kinds(kTimeKinds.size());
  std::transform(kTimeKinds.begin(), kTimeKinds.end(), kinds.begin(),
                 [](const TimeKind& kind) { return kind.kind; });
  const auto fill = [&](TextTable& into, int bar) {
    for (const auto& row : rows) {
      const Shares& shares = row.second;
      const auto part = [&](TimeKind::Sum sum) {
        return percent(longest > 0 ? sum_of(shares, sum) / longest : 0);
      };
      into.row(
          {row.first,
           stacked_bar(kinds, {shares.begin(), shares.end()}, longest, bar, {"", " ", ""}, paint),
           part(TimeKind::Sum::compute), part(TimeKind::Sum::exposed), part(TimeKind::Sum::bubble),
           part(TimeKind::Sum::rest)});
    }
  };
  TextTable measure = table;
  fill(measure, 0);
  const int bar = std::clamp(width - measure.width_without_bar(), kMinBar, kMaxBar);
  fill(table, bar);
  std::vector<std::string> values;
  for (std::size_t i = 0; i < kTimeKinds.size(); ++i) {
    const double share = longest > 0 ? mean[i] / longest : 0;
    values.push_back(share >= kMinShare ? percent(share) : "");
  }
  return heading(paint, "Where the step goes",
                 fmt::format("one column: {}; letters: exposed communication and other waits",
                             duration(longest / bar)),
                 width) +
         table.text(paint, width, bar) + legend(kinds, values, width, paint);
}

}  // namespace stepcast::report
