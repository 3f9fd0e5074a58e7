#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "stepcast/base/statistics.h"
#include "stepcast/validate/compare.h"

namespace stepcast::validate {
namespace {

using result::ValidationRow;
using result::ValidationSummary;

// The quantile `q` of the values; 0 if there are none.
double quantile(std::vector<double> values, double q) {
  if (values.empty()) {
    return 0;
  }
  std::sort(values.begin(), values.end());
  return interpolated_quantile(values, q);
}

// The score of a 90 % interval [l, u] for the outcome y, relative to y (Gneiting and Raftery 2007,
// eq. 43): the interval's width plus twenty times the distance by which it misses y.
double interval_score(const ValidationRow& r) {
  constexpr double kAlpha = 0.1;
  const double missed = std::max({0.0, r.low - r.published, r.published - r.high});
  return ((r.high - r.low) + 2 / kAlpha * missed) / std::abs(r.published);
}

bool measured(const ValidationRow& r) {
  return r.status != "skipped" && (r.published > 0 || r.metric == "oom");
}

ValidationSummary summary_of(const std::string& file, const std::string& metric,
                             std::span<const ValidationRow> rows) {
  ValidationSummary s;
  s.file = file;
  s.metric = metric;
  std::vector<double> errors, widths;
  double scores = 0;
  int covered = 0;
  for (const ValidationRow& r : rows) {
    if (r.metric != metric || (file != "all" && r.file != file)) {
      continue;
    }
    ++s.rows;
    s.accepted += r.status == "skipped" && r.accepted ? 1 : 0;
    s.unmeasured += r.status != "skipped" && !measured(r) ? 1 : 0;
    if (!measured(r)) {
      continue;
    }
    ++s.simulated;
    errors.push_back(std::abs(r.error));
    s.mean += std::abs(r.error);
    s.bias += r.error;
    if (errors.size() == 1 || std::abs(r.error) > std::abs(s.worst)) {
      s.worst = r.error;
      s.worst_id = r.id;
    }
    covered += r.low <= r.published && r.published <= r.high ? 1 : 0;
    if (r.predicted > 0 && r.metric != "oom") {
      widths.push_back((r.high - r.low) / 2 / r.predicted);
      scores += interval_score(r);
    }
  }
  if (s.simulated > 0) {
    s.mean /= s.simulated;
    s.bias /= s.simulated;
    s.coverage = static_cast<double>(covered) / s.simulated;
    s.interval_score = widths.empty() ? 0 : scores / static_cast<double>(widths.size());
  }
  s.median = quantile(errors, 0.5);
  s.p90 = quantile(errors, 0.9);
  s.half_width = quantile(widths, 0.5);
  const int missing = s.rows - s.accepted - s.unmeasured - s.simulated;
  errors.insert(errors.end(), static_cast<std::size_t>(missing), std::abs(s.worst));
  s.median_of_all = quantile(errors, 0.5);
  s.p90_of_all = quantile(errors, 0.9);
  s.mean_of_all = errors.empty() ? 0
                                 : std::accumulate(errors.begin(), errors.end(), 0.0) /
                                       static_cast<double>(errors.size());
  return s;
}

}  // namespace

std::vector<ValidationSummary> summarize(std::span<const ValidationRow> rows) {
  std::vector<ValidationSummary> out;
  std::vector<std::string> metrics;
  std::set<std::pair<std::string, std::string>> done;
  std::set<std::string> files;
  for (const ValidationRow& r : rows) {
    files.insert(r.file);
    if (std::find(metrics.begin(), metrics.end(), r.metric) == metrics.end()) {
      metrics.push_back(r.metric);
    }
    if (done.insert({r.file, r.metric}).second) {
      out.push_back(summary_of(r.file, r.metric, rows));
    }
  }
  for (const std::string& metric : metrics) {
    if (files.size() > 1) {
      out.push_back(summary_of("all", metric, rows));
    }
  }
  return out;
}

}  // namespace stepcast::validate
