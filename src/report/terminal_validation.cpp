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
                   {"+-"},
                   {"score"}});
  for (const result::ValidationSummary& s : validation.summary) {
    const std::string name = std::filesystem::path(s.file).filename().string();
    table.row({shorten(name, 40), s.metric, thousands(s.rows), thousands(s.simulated),
               percent(s.median), percent(s.mean), signed_percent(s.bias), percent(s.p90),
               signed_percent(s.worst), percent(s.coverage), percent(s.half_width),
               percent(s.interval_score)});
  }
  return paint("1", "Error against published measurements") + "  " +
         paint("2",
               "absolute error; inside: rows in their 90 % interval; +-: its half-width; score: "
               "Gneiting and "
               "Raftery's") +
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
  std::map<std::string, std::vector<std::pair<std::string, int>>> details;  // by kind
  int total = 0;
  for (const ValidationRow& row : validation.rows) {
    if (row.status == "skipped") {
      const std::string reason = row.reason.value_or("no reason given");
      auto& list = details[reason.substr(0, reason.find(':'))];
      const auto at = std::find_if(list.begin(), list.end(),
                                   [&](const auto& entry) { return entry.first == reason; });
      at == list.end() ? static_cast<void>(list.emplace_back(reason, 1))
                       : static_cast<void>(++at->second);
      ++total;
    }
  }
  if (total == 0) {
    return "";
  }
  TextTable table({{"rows"}, {"", Align::left}, {"reason", Align::left}});
  const auto add = [&](const std::string& kind, const char* verdict) {
    auto list = std::move(details[kind]);
    details.erase(kind);
    std::stable_sort(list.begin(), list.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    for (const auto& [reason, count] : list) {
      table.row({thousands(count), verdict, reason});
    }
  };
  for (const result::SkipCount& skip : validation.skips) {
    add(skip.kind, skip.accepted ? "accepted" : "missing");
  }
  while (!details.empty()) {  // of tools that have no list of reasons
    add(details.begin()->first, "");
  }
  return "\n" + paint("1", fmt::format("Not simulated: {} rows", total)) + "  " +
         paint("2", "accepted: on the list of simulate validate --list") + "\n" +
         table.text(paint, kWidth);
}

// The mark: 95 % of the rows that are not left out for an accepted reason.
constexpr double kLeastShare = 0.95;

std::string incomplete(const result::Validation& validation) {
  std::string out;
  for (const result::ValidationSummary& s : validation.summary) {
    if (s.simulated_share() < kLeastShare) {
      out += fmt::format(
          "  {} {}: {} of the rows not left out for an accepted reason are simulated; with the "
          "rest at the worst error median {}, mean {}, p90 {}\n",
          std::filesystem::path(s.file).filename().string(), s.metric, percent(s.simulated_share()),
          percent(s.median_of_all), percent(s.mean_of_all), percent(s.p90_of_all));
    }
  }
  return out.empty() ? "" : "\nFewer than 95 % simulated\n" + out;
}

}  // namespace

std::string terminal(const result::Validation& validation, bool colour) {
  const Paint paint{colour};
  return summary(validation, paint) + misses(validation, paint) + skipped(validation, paint) +
         incomplete(validation);
}

}  // namespace stepcast::report
