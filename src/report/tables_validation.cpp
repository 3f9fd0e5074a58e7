// Validation as Markdown and as CSV.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "format.h"
#include "stepcast/report/report.h"

namespace stepcast::report {
namespace {

using result::Validation;
using result::ValidationRow;

constexpr std::size_t kWorst = 3;  // rows of each source

std::string name_of(const std::string& file) { return std::filesystem::path(file).stem().string(); }

std::string signed_percent(double fraction) { return fmt::format("{:+.1f} %", 100 * fraction); }

// A cell of a Markdown table: no bar may end it.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    out += c == '|' ? "\\|" : c == '\n' ? " " : std::string(1, c);
  }
  return out;
}

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) {
    return text;
  }
  std::string out = "\"";
  for (const char c : text) {
    out += c == '"' ? "\"\"" : std::string(1, c);
  }
  return out + "\"";
}

// What stands behind a miss, in a line.
std::string reason_of(const ValidationRow& r) {
  std::string out = r.reason ? *r.reason + "; " : "";
  out += fmt::format("{:+.1f} deviations; {}", r.deviations, r.why);
  for (std::size_t i = 0; i < r.open.size(); ++i) {
    out += (i == 0 ? "; not stated: " : ", ") + r.open[i];
  }
  return out;
}

std::string worst_rows(const Validation& v) {
  std::string out =
      "\n## Worst rows of each source\n\n| source | error | quantity | row | why |\n"
      "| --- | ---: | --- | --- | --- |\n";
  std::map<std::string, std::vector<const ValidationRow*>> by_source;
  for (const ValidationRow& r : v.rows) {
    if (r.status != "skipped" && r.primary && r.error != 0) {
      by_source[name_of(r.file)].push_back(&r);
    }
  }
  for (auto& [source, rows] : by_source) {
    std::stable_sort(rows.begin(), rows.end(), [](const auto* a, const auto* b) {
      return std::abs(a->error) > std::abs(b->error);
    });
    for (std::size_t i = 0; i < std::min(kWorst, rows.size()); ++i) {
      const ValidationRow& r = *rows[i];
      out += fmt::format("| {} | {} | {} | {} | {} |\n", source, signed_percent(r.error), r.metric,
                         cell(r.id), cell(reason_of(r)));
    }
  }
  return out;
}

}  // namespace

std::string markdown(const Validation& v) {
  std::string out =
      "# Forecasts against published measurements\n\n"
      "Absolute errors; all: with every row missing without an accepted reason at its source's "
      "worst error; inside: rows within their 90 % interval.\n\n"
      "| source | quantity | rows | simulated | median | mean | bias | p90 | worst | median, all | "
      "mean, all | inside | half-width | score |\n"
      "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | "
      "---: |\n";
  for (const result::ValidationSummary& s : v.summary) {
    out += fmt::format(
        "| {} | {} | {} | {} ({}) | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
        name_of(s.file), s.metric, s.rows, s.simulated, percent(s.simulated_share()),
        percent(s.median), percent(s.mean), signed_percent(s.bias), percent(s.p90),
        signed_percent(s.worst), percent(s.median_of_all), percent(s.mean_of_all),
        percent(s.coverage), percent(s.half_width), percent(s.interval_score));
  }
  out +=
      worst_rows(v) +
      "\n## Not simulated\n\n| rows | reason | accepted | meaning |\n| ---: | --- | --- | --- |\n";
  for (const result::SkipCount& s : v.skips) {
    out += fmt::format("| {} | {} | {} | {} |\n", s.rows, s.kind, s.accepted ? "yes" : "no",
                       s.meaning);
  }
  return out;
}

std::string csv(const Validation& v) {
  std::string out =
      "file,id,metric,primary,status,published,predicted,low,high,error,deviations,reason,why\n";
  for (const ValidationRow& r : v.rows) {
    out += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{}\n", quoted(name_of(r.file)),
                       quoted(r.id), r.metric, r.primary ? 1 : 0, r.status, r.published,
                       r.predicted, r.low, r.high, r.error, r.deviations,
                       quoted(r.reason.value_or("")), quoted(r.why));
  }
  return out;
}

}  // namespace stepcast::report
