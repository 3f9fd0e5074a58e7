// Predicted against published: the summary first, then the rows that miss by most, then what was
// left out and why.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "stepcast/report/report.h"
#include "text_table.h"

namespace stepcast::report {
namespace {

using result::ValidationRow;
using Align = TextTable::Align;

constexpr int kWidth = 120;
constexpr std::size_t kMostMisses = 12;

std::string signed_percent(double fraction) {
  return std::isfinite(fraction) ? fmt::format("{:+.1f} %", 100 * fraction) : "-";
}

std::string summary(const result::Validation& validation, const Paint& paint) {
  TextTable table({{"file", Align::left},
                   {"metric", Align::left},
                   {"rows"},
                   {"done"},
                   {"median"},
                   {"mean"},
                   {"bias"},
                   {"p90"},
                   {"worst"},
                   {"inside"},
                   {"+-"}});
  for (const result::ValidationSummary& s : validation.summary) {
    const std::string name = std::filesystem::path(s.file).filename().string();
    table.row({shorten(name, 40), s.metric, thousands(s.rows), thousands(s.simulated),
               percent(s.median), percent(s.mean), signed_percent(s.bias), percent(s.p90),
               signed_percent(s.worst), percent(s.coverage), percent(s.half_width)});
  }
  return paint("1", "Error against published measurements") + "  " +
         paint("2", "absolute error; inside: rows within their 90 % interval; +-: its half-width") +
         "\n" + table.text(paint, kWidth);
}

std::string misses(const result::Validation& validation, const Paint& paint) {
  std::vector<const ValidationRow*> rows;
  for (const ValidationRow& row : validation.rows) {
    if (row.status != "skipped" && std::isfinite(row.error) && row.error != 0) {
      rows.push_back(&row);
    }
  }
  std::stable_sort(rows.begin(), rows.end(), [](const auto* a, const auto* b) {
    return std::abs(a->error) > std::abs(b->error);
  });
  if (rows.empty()) {
    return "";
  }
  TextTable table({{"error"},
                   {"published"},
                   {"predicted"},
                   {"90 % interval"},
                   {"metric", Align::left},
                   {"row", Align::left}});
  const std::size_t shown = std::min(rows.size(), kMostMisses);
  for (std::size_t i = 0; i < shown; ++i) {
    const ValidationRow& row = *rows[i];
    const auto number = [](double value) { return fmt::format("{:.4g}", value); };
    std::string place;
    if (row.stage) {
      place += fmt::format(" stage {}", *row.stage);
    }
    if (row.rank) {
      place += fmt::format(" rank {}", *row.rank);
    }
    table.row({signed_percent(row.error), number(row.published), number(row.predicted),
               number(row.low) + " to " + number(row.high), row.metric + place, row.id});
  }
  return "\n" + paint("1", fmt::format("Largest misses, {} of {}", shown, rows.size())) + "  " +
         paint("2", "seconds, bytes, FLOP/s") + "\n" + table.text(paint, kWidth);
}

std::string skipped(const result::Validation& validation, const Paint& paint) {
  std::map<std::string, int> reasons;
  int total = 0;
  for (const ValidationRow& row : validation.rows) {
    if (row.status == "skipped") {
      ++reasons[row.reason.value_or("no reason given")];
      ++total;
    }
  }
  if (total == 0) {
    return "";
  }
  std::vector<std::pair<std::string, int>> order(reasons.begin(), reasons.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  TextTable table({{"rows"}, {"reason", Align::left}});
  for (const auto& [reason, count] : order) {
    table.row({thousands(count), reason});
  }
  return "\n" + paint("1", fmt::format("Not simulated: {} rows", total)) + "\n" +
         table.text(paint, kWidth);
}

}  // namespace

std::string terminal(const result::Validation& validation, bool colour) {
  const Paint paint{colour};
  return summary(validation, paint) + misses(validation, paint) + skipped(validation, paint);
}

}  // namespace stepcast::report
