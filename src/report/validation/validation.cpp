// Predicted against published as JSON, CSV and Markdown, and the fields that all forms share.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "../record/tables.h"
#include "../text/format.h"
#include "stepcast/report/report.h"
#include "validation_conclusion.h"
#include "validation_fields.h"

namespace stepcast::report {
namespace {

using result::Validation;
using result::ValidationRow;
using result::ValidationSummary;

constexpr std::size_t kWorstRows = 3;  // of each source

Record validation_row_fields(const ValidationRow& r) {
  Record path, doubts, bytes;
  for (const result::PathShare& part : r.path) {
    path.push_back({part.category, part.seconds});
  }
  for (const auto& [kind, deviation] : r.doubts) {
    doubts.push_back({kind, deviation});
  }
  for (const auto& [part, amount] : r.bytes) {
    bytes.push_back({part, amount});
  }
  return {{"id", r.id},
          {"source", r.source},
          {"file", r.file},
          {"metric", r.metric},
          {"primary", r.primary},
          {"stage", r.stage},
          {"rank", r.rank},
          {"status", r.status},
          {"published", r.published},
          {"predicted", r.predicted},
          {"low", r.low},
          {"high", r.high},
          {"error", r.error},
          {"reason", r.reason},
          {"accepted", r.accepted},
          {"deviations", r.deviations},
          {"open", r.open},
          {"system", r.system},
          {"path", object(std::move(path))},
          {"doubts", object(std::move(doubts))},
          {"bytes", object(std::move(bytes))},
          {"why", r.why}};
}

Record validation_csv_fields(const ValidationRow& r) {
  return {{"file", file_stem(r.file)},
          {"id", r.id},
          {"metric", r.metric},
          {"primary", r.primary ? 1 : 0},
          {"status", r.status},
          {"published", r.published},
          {"predicted", r.predicted},
          {"low", r.low},
          {"high", r.high},
          {"error", r.error},
          {"deviations", r.deviations},
          {"reason", r.reason.value_or("")},
          {"why", r.why}};
}

// One of the worst rows, with what explains its error.
Record worst_fields(const ValidationRow& r) {
  return {{"", file_stem(r.file), "source"},
          {"", r.error, "error", Show::change},
          {"", r.metric, "quantity"},
          {"", r.id, "row"},
          {"",
           fmt::format("{}{:+.1f} deviations; {}{}", r.reason ? *r.reason + "; " : "", r.deviations,
                       r.why, not_stated(r)),
           "why"}};
}

std::vector<Record> worst_rows(const Validation& v) {
  std::map<std::string, std::vector<const ValidationRow*>> by_source;
  for (const ValidationRow& r : v.rows) {
    if (r.status != "skipped" && r.primary && r.error != 0) {
      by_source[file_stem(r.file)].push_back(&r);
    }
  }
  std::vector<Record> out;
  for (auto& [source, rows] : by_source) {
    sort_by_error(rows);
    for (std::size_t i = 0; i < std::min(kWorstRows, rows.size()); ++i) {
      out.push_back(worst_fields(*rows[i]));
    }
  }
  return out;
}

}  // namespace

Record validation_summary_fields(const ValidationSummary& s) {
  constexpr double kFewSimulated = 0.95, kFewInside = 0.7;
  const double share = s.simulated_share();
  // Of no forecast at all there is no error; JSON has numbers in any case.
  const auto known = [&](double value) {
    return s.simulated > 0 ? std::optional(value) : std::nullopt;
  };
  return {
      {"", file_stem(s.file), "source"},
      {"", shorten(file_name(s.file), 40), "file"},
      {"file", s.file},
      {"metric", s.metric, "quantity"},
      {"rows", s.rows, "rows", Show::count},
      {"simulated", s.simulated, "simulated", Show::count},
      {"", fmt::format("{} ({})", s.simulated, percent(share)), "simulated, share", Show::number},
      {"", share, "share", Show::percent, "", share < kFewSimulated},
      {"median", s.median},
      {"", known(s.median), "median", Show::percent},
      {"mean", s.mean},
      {"", known(s.mean), "mean", Show::percent},
      {"bias", s.bias},
      {"", known(s.bias), "bias", Show::change},
      {"p90", s.p90},
      {"", known(s.p90), "p90", Show::percent},
      {"worst", object({{"id", s.worst_id}, {"error", s.worst}})},
      {"", known(s.worst), "worst", Show::change, s.worst_id},
      {"coverage", s.coverage},
      {"", known(s.coverage), "inside", Show::percent, "",
       s.simulated > 0 && s.coverage < kFewInside},
      {"half_width", s.half_width},
      {"", known(s.half_width), "half-width", Show::percent},
      {"interval_score", s.interval_score},
      {"", known(s.interval_score), "score", Show::percent},
      {"accepted", s.accepted},
      {"simulated_share", share},
      {"of_all",
       object({{"median", s.median_of_all}, {"mean", s.mean_of_all}, {"p90", s.p90_of_all}})},
      {"", known(s.median_of_all), "median, all", Show::percent},
      {"", known(s.mean_of_all), "mean, all", Show::percent},
  };
}

Record skip_fields(const result::SkipCount& s) {
  return {{"kind", s.kind, "reason"},
          {"accepted", s.accepted, "accepted", Show::yes_no, "", !s.accepted && s.rows > 0},
          {"rows", s.rows, "rows", Show::count},
          {"", s.meaning, "meaning", Show::prose}};
}

std::string not_stated(const ValidationRow& row) {
  std::string out;
  for (const std::string& fact : row.open) {
    out += (out.empty() ? "; not stated: " : ", ") + fact;
  }
  return out;
}

void sort_by_error(std::vector<const ValidationRow*>& rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const auto* a, const auto* b) {
    return std::abs(a->error) > std::abs(b->error);
  });
}

std::string json(const Validation& validation) {
  return json_of({{"schema", 1},
                  {"conclusion", conclusion(validation)},
                  {"rows", rows(validation.rows, validation_row_fields)},
                  {"summary", rows(validation.summary, validation_summary_fields)},
                  {"skips", rows(validation.skips, skip_fields)}});
}

std::string csv(const Validation& v) {
  return csv_of(validation_csv_fields({}), records(v.rows, validation_csv_fields));
}

std::string markdown(const Validation& v) {
  const Captions summary = {"source",
                            "quantity",
                            {"rows", "rows", Show::number},
                            {"simulated, share", "simulated"},
                            "median",
                            "mean",
                            "bias",
                            "p90",
                            "worst",
                            "median, all",
                            "mean, all",
                            "inside",
                            "half-width",
                            "score"};
  const Captions skips = {{"rows", "rows", Show::number}, "reason", "accepted", "meaning"};
  return "# Forecasts against published measurements\n\n"
         "Absolute errors; all: rows that are missing without an accepted reason count with their "
         "source's worst error; inside: rows within their 90 % interval.\n\n" +
         markdown_table(validation_summary_fields({}),
                        records(v.summary, validation_summary_fields), summary) +
         "\n## Worst rows of each source\n\n" + markdown_table(worst_fields({}), worst_rows(v)) +
         "\n## Not simulated\n\n" +
         markdown_table(skip_fields({}), records(v.skips, skip_fields), skips);
}

}  // namespace stepcast::report
