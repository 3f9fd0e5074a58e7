#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "../text/text_table.h"
#include "terminal_sections.h"
#include "time_kinds.h"
#include "traffic_words.h"

namespace stepcast::report {
namespace {

using result::Report;
using result::StageBreakdown;
using Align = TextTable::Align;

constexpr std::size_t kMaxTraffic = 8;
constexpr int kOtherColumns = 60;  // width of the table of communication without its operations

// Exposed time of the group's category on the stage where it is longest; below zero for a group
// that has none.
Time exposed(const Report& report, std::string_view group) {
  const std::string_view category = category_of_group(group);
  Time most{-1};
  for (const TimeKind& kind : kTimeKinds) {
    if (kind.sum == TimeKind::Sum::exposed && kind.kind.name == category) {
      for (const StageBreakdown& stage : report.breakdown) {
        most = std::max(most, result::part_of(stage, kind.category));
      }
    }
  }
  return most;
}

}  // namespace

std::string traffic_text(const Report& report, const Paint& paint, int width) {
  std::vector<result::Traffic> rows = report.traffic;
  // The groups with the longest exposed time come first, of a category the group of the same name;
  // in a group, the operation that takes longest.
  const auto place = [&](const result::Traffic& row) {
    const std::string_view category = category_of_group(row.group);
    return std::tuple(-exposed(report, row.group), category, row.group != category,
                      std::string_view(row.group), -row.time);
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const auto& a, const auto& b) { return place(a) < place(b); });
  if (rows.empty()) {
    return "";
  }
  TextTable table({{"group", Align::left},
                   {"exposed"},
                   {"operation", Align::left},
                   {"count"},
                   {"data"},
                   {"time"},
                   {"rate"}});
  std::string group;
  std::map<std::string_view, std::string>
      first_of;  // the first group of each category, which alone shows its time
  const std::size_t shown = std::min(rows.size(), kMaxTraffic);
  for (std::size_t i = 0; i < shown; ++i) {
    const result::Traffic& row = rows[i];
    const bool first = row.group != group;
    group = row.group;
    const double time = to_seconds(row.time);
    const Time waited = exposed(report, group);
    const std::string& owner =
        first_of.try_emplace(category_of_group(row.group), group).first->second;
    table.row({first ? group_words(group) : "",
               !first             ? ""
               : waited < Time{0} ? "-"
               : owner != group   ? "in " + group_words(owner)
                                  : duration(to_seconds(waited)),
               shorten(operation_words(row.op), std::max(12, width - kOtherColumns)),
               thousands(row.count), data_size(static_cast<double>(row.bytes.count())),
               duration(time),
               time > 0 ? rate(static_cast<double>(row.bytes.count()) / time) : "-"});
  }
  std::string out = heading(paint, "Communication",
                            "per GPU and step; exposed: on the stage where it is longest", width) +
                    table.text(paint, width);
  if (rows.size() > shown) {
    out += fmt::format("  and {} more\n", rows.size() - shown);
  }
  return out;
}

}  // namespace stepcast::report
