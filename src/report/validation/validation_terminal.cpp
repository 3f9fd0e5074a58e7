// Predicted against published: the summary first, then the rows with the largest errors, then the
// rows left out, with the reasons.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "../record/tables.h"
#include "../text/format.h"
#include "stepcast/report/report.h"
#include "validation_conclusion.h"
#include "validation_fields.h"

namespace stepcast::report {
namespace {

using result::ValidationRow;

constexpr std::size_t kMaxMisses = 12;

std::string summary(const result::Validation& validation, const Paint& paint) {
  const Captions columns = {"file",
                            {"quantity", "metric"},
                            "rows",
                            {"simulated", "done"},
                            "median",
                            "mean",
                            "bias",
                            "p90",
                            "worst",
                            "inside",
                            {"half-width", "+-"},
                            "score"};
  return heading(paint, "Error against published measurements",
                 "absolute error; inside: rows in their 90 % interval; +-: its half-width; score: "
                 "Gneiting and Raftery's") +
         text_table(validation.summary, validation_summary_fields, columns)
             .text(paint, kUsualWidth);
}

Record miss_fields(const ValidationRow& row) {
  const auto number = [](double value) { return fmt::format("{:.4g}", value); };
  const std::string stage = row.stage ? fmt::format(" stage {}", *row.stage) : "";
  const std::string rank = row.rank ? fmt::format(" rank {}", *row.rank) : "";
  return {{"", row.error, "error", Show::change},
          {"", number(row.published), "published", Show::number},
          {"", number(row.predicted), "predicted", Show::number},
          {"", number(row.low) + " to " + number(row.high), "90 % interval", Show::number},
          {"", row.metric + stage + rank, "metric"},
          {"", row.id, "row"}};
}

std::string misses(const result::Validation& validation, const Paint& paint) {
  std::vector<const ValidationRow*> rows;
  for (const ValidationRow& row : validation.rows) {
    if (row.status != "skipped" && std::isfinite(row.error) && row.error != 0) {
      rows.push_back(&row);
    }
  }
  sort_by_error(rows);
  if (rows.empty()) {
    return "";
  }
  std::vector<Record> shown;
  for (std::size_t i = 0; i < std::min(rows.size(), kMaxMisses); ++i) {
    shown.push_back(miss_fields(*rows[i]));
  }
  return "\n" +
         heading(paint, fmt::format("Largest errors, {} of {}", shown.size(), rows.size()),
                 "seconds, bytes, FLOP/s") +
         text_table(miss_fields({}), shown).text(paint, kUsualWidth);
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
  using Align = TextTable::Align;
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
  while (!details.empty()) {  // kinds of commands that have no list of reasons
    add(details.begin()->first, "");
  }
  return "\n" +
         heading(paint, fmt::format("Not simulated: {} rows", total),
                 "accepted: outside what is modelled") +
         table.text(paint, kUsualWidth);
}

// Runs that ran and whose forecasts do not fit, by name: of those that are open it is not known
// whether the forecast is wrong.
std::string too_large(const result::Validation& validation, const Paint& paint) {
  std::vector<const ValidationRow*> rows;
  for (const ValidationRow& row : validation.rows) {
    if (row.primary && (row.status == "oom" || row.status == "open")) {
      rows.push_back(&row);
    }
  }
  if (rows.empty()) {
    return "";
  }
  using Align = TextTable::Align;
  TextTable table({{"", Align::left}, {"row", Align::left}});
  for (const ValidationRow* row : rows) {
    table.row({row->status == "open" ? "open" : "too large", row->id});
  }
  return "\n" +
         heading(paint, fmt::format("Ran, and forecast not to fit: {} rows", rows.size()),
                 "open: fits with full recomputation, which the source does not state") +
         table.text(paint, kUsualWidth);
}

// The goal: 95 % of the rows that are not left out for an accepted reason are simulated.
constexpr double kMinSimulated = 0.95;

std::string incomplete(const result::Validation& validation) {
  std::string out;
  for (const result::ValidationSummary& s : validation.summary) {
    if (s.simulated_share() < kMinSimulated) {
      out +=
          fmt::format("  {} {}: {} of the rows not left out for an accepted reason are simulated",
                      file_name(s.file), s.metric, percent(s.simulated_share()));
      if (s.simulated > 0) {
        out += fmt::format("; if the others count with the worst error, median {}, mean {}, p90 {}",
                           percent(s.median_of_all), percent(s.mean_of_all), percent(s.p90_of_all));
      }
      out += "\n";
    }
  }
  return out.empty() ? "" : "\nFewer than 95 % simulated\n" + out;
}

}  // namespace

std::string terminal(const result::Validation& validation, bool colour) {
  const Paint paint{colour};
  return paint("1", wrap(conclusion(validation), 100, 0)) + "\n\n" + summary(validation, paint) +
         misses(validation, paint) + too_large(validation, paint) + skipped(validation, paint) +
         incomplete(validation);
}

}  // namespace stepcast::report
