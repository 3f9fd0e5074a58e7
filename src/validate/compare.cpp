#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "operator_rows.h"
#include "stepcast/base/interval.h"
#include "stepcast/input/input.h"
#include "stepcast/validate/published.h"

namespace stepcast::validate {
namespace {

using interop::Skipped;
using result::ValidationRow;

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::variant<RowForecast, Skipped> forecast_at(forecast::Forecaster& forecaster,
                                               const interop::RowJob& row,
                                               const std::vector<std::string>& overrides,
                                               bool with_layer) {
  RowForecast out;
  out.row = row;
  try {
    out.job = input::parse(row.yaml, "row", overrides).job;
  } catch (const InputError& error) {
    return Skipped{"not possible", error.faults().front().message};
  }
  try {
    auto report = forecaster.forecast(out.job);
    if (const auto* why = std::get_if<Infeasible>(&report)) {
      return Skipped{"not possible", fmt::format("{}: {}", why->key, why->reason)};
    }
    out.report = std::get<result::Report>(std::move(report));
    if (with_layer) {
      auto layer = forecaster.layer_time(
          out.job, row.experts_alone ? lower::LayerPart::experts : lower::LayerPart::whole);
      if (const auto* times = std::get_if<forecast::Forecaster::LayerTime>(&layer)) {
        out.layer = *times;
      }
    }
    return out;
  } catch (const InputError&) {
    throw;  // the fault lies in a calibration file and not in this row
  } catch (const std::exception& error) {
    return Skipped{"not possible", first_line(error.what())};
  }
}

bool accepted(std::string_view kind) {
  for (const interop::SkipReason& reason : interop::skip_reasons()) {
    if (reason.kind == kind) {
      return reason.accepted;
    }
  }
  return false;
}

void skip(ValidationRow& row, const Skipped& skipped) {
  row.status = "skipped";
  row.reason = skipped.text();
  row.accepted = accepted(skipped.kind);
}

// Example: "compute 71 %, tensor 20 %; least sure of gemm bf16 (64 % of the variance)".
std::string why(const result::Report& report) {
  constexpr std::size_t kParts = 3;
  std::string out;
  const double step = report.step_time.value;
  for (std::size_t i = 0; i < std::min(kParts, report.critical_path.size()); ++i) {
    const result::PathShare& p = report.critical_path[i];
    out += fmt::format("{}{} {:.0f} %", i > 0 ? ", " : "", p.category, 100 * p.seconds / step);
  }
  double variance = 0;
  for (const result::Doubt& d : report.doubts) {
    variance += d.added() * d.added();
  }
  if (variance > 0) {
    const result::Doubt& most = report.doubts.front();
    out += fmt::format("; least sure of {} ({:.0f} % of the variance)", most.name,
                       100 * most.added() * most.added() / variance);
  }
  return out;
}

bool of_memory(const std::string& metric) {
  return metric == "peak_memory" || metric == "steady_memory" || metric == "oom";
}

bool of_layer(const std::string& metric) { return metric.starts_with("layer_"); }

// Example: "activations 61 %, parameters 20 %", for the stage that uses most memory.
std::string what_fills(const result::Report& report) {
  if (report.memory.empty()) {
    return "";
  }
  const auto& m =
      *std::max_element(report.memory.begin(), report.memory.end(),
                        [](const auto& a, const auto& b) { return a.allocated < b.allocated; });
  std::vector<std::pair<const char*, Bytes>> parts;
  for (const auto& [category, word] : spellings(program::MemoryCategory{})) {
    parts.emplace_back(word, result::part_of(m, category));
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  constexpr std::size_t kParts = 3;
  std::string out;
  for (std::size_t i = 0; i < kParts && m.allocated.count() > 0; ++i) {
    out += fmt::format("{}{} {:.0f} %", i > 0 ? ", " : "", parts[i].first,
                       100.0 * static_cast<double>(parts[i].second.count()) /
                           static_cast<double>(m.allocated.count()));
  }
  return out;
}

// Relative standard deviation of the step time for each kind of doubt.
std::vector<std::pair<std::string, double>> by_kind(const RowForecast& forecast) {
  std::vector<std::pair<std::string, double>> out;
  const double step = forecast.report.step_time.value;
  for (const result::Doubt& d : forecast.report.doubts) {
    auto at = std::find_if(out.begin(), out.end(),
                           [&](const auto& entry) { return entry.first == to_string(d.kind); });
    at = at == out.end() ? out.insert(out.end(), {to_string(d.kind), 0}) : at;
    at->second = std::hypot(at->second, d.added() / step);
  }
  out.emplace_back("row", forecast.row.half_width() / kDeviations90);
  return out;
}

ValidationRow base_row(const interop::PublishedRow& row) {
  ValidationRow out;
  out.id = row.identity.id;
  out.source = row.identity.source;
  out.file = row.identity.file;
  return out;
}

// Stepcast's name of the row's primary metric, for rows that yield no number.
std::string metric_name(const interop::PublishedRow& row) {
  for (const auto& m : interop::measurements(row, interop::RowJob{})) {
    if (m.primary) {
      return m.metric;
    }
  }
  return row.output.metric;
}

void compare_one(const interop::PublishedRow& row, const RowForecast& forecast,
                 std::vector<ValidationRow>& out) {
  const auto measured = interop::measurements(row, forecast.row);
  bool primary_seen = false;
  for (const interop::Measurement& m : measured) {
    const auto e = predict(forecast, m, row.output);
    if (!e) {
      continue;
    }
    ValidationRow r = base_row(row);
    r.metric = m.metric;
    r.primary = m.primary;
    primary_seen = primary_seen || m.primary;
    r.rank = m.rank;
    r.published = m.value;
    r.predicted = e->value;
    r.low = e->low;
    r.high = e->high;
    r.step = forecast.report.step_time.value;
    r.system = forecast.job.system.name;
    if (of_memory(m.metric)) {
      r.why = what_fills(forecast.report);
    } else {
      r.why = why(forecast.report);
      r.path = forecast.report.critical_path;
      r.doubts = by_kind(forecast);
    }
    for (const interop::Assumption& assumption : forecast.row.assumptions) {
      r.open.push_back(assumption.what);
    }
    const double half = r.published > r.predicted ? r.high - r.predicted : r.predicted - r.low;
    r.deviations = half > 0 ? kDeviations90 * (r.published - r.predicted) / half : 0;
    if (m.metric == "oom") {
      r.error = std::abs(r.predicted - r.published);
    } else if (m.value > 0) {
      r.error = (r.predicted - r.published) / r.published;
      // Memory is compared even if the forecast does not fit. A single layer was measured without
      // the rest of its model, so fitting says nothing about it.
      const bool whole_step = !of_memory(m.metric) && !of_layer(m.metric);
      if (!forecast.report.fits && whole_step) {
        r.status = "oom";
        r.reason = "the forecast does not fit in memory";
      }
    } else {
      r.reason = "no measured value";
    }
    out.push_back(r);
  }
  if (!primary_seen && measured.empty()) {
    ValidationRow r = base_row(row);
    r.metric = row.output.metric;
    skip(r, {"calculation", row.output.metric + " is no quantity of a forecast"});
    out.push_back(r);
  }
}

// Compares a row that measures one operator by its allocated bytes.
ValidationRow compare_operator(const interop::PublishedRow& row,
                               const interop::OperatorCase& measured) {
  ValidationRow r = base_row(row);
  r.metric = metric_name(row);
  const auto peak = operator_peak(measured);
  if (const auto* skipped = std::get_if<Skipped>(&peak)) {
    skip(r, *skipped);
    return r;
  }
  for (const interop::Measurement& m : interop::measurements(row, interop::RowJob{})) {
    if (m.metric == "peak_memory" && m.value > 0) {
      r.primary = true;
      r.published = m.value;
      r.predicted = r.low = r.high = static_cast<double>(std::get<Bytes>(peak).count());
      r.error = (r.predicted - r.published) / r.published;
    }
  }
  return r;
}

}  // namespace

std::variant<RowForecast, Skipped> forecast_row(forecast::Forecaster& forecaster,
                                                const interop::RowConfiguration& configuration,
                                                bool with_layer) {
  auto built = interop::job_of(configuration);
  if (const auto* skipped = std::get_if<Skipped>(&built)) {
    return *skipped;
  }
  const auto& row = std::get<interop::RowJob>(built);
  auto best = forecast_at(forecaster, row, {}, with_layer);
  if (!row.micro_batch_open) {
    return best;
  }
  // Tries micro-batches that are powers of two and divide each rank's share. One counts as fitting
  // only if the upper end of its interval fits.
  for (std::int64_t micro = 2; micro <= row.sequences_per_rank; micro *= 2) {
    if (row.sequences_per_rank % micro != 0) {
      break;
    }
    auto next =
        forecast_at(forecaster, row, {fmt::format("workload.micro_batch={}", micro)}, with_layer);
    const auto* forecast = std::get_if<RowForecast>(&next);
    if (forecast == nullptr || !forecast->report.fits ||
        forecast->report.peak.high > static_cast<double>(forecast->report.capacity.count())) {
      break;
    }
    best = std::move(next);
  }
  return best;
}

result::Validation compare(forecast::Forecaster& forecaster,
                           std::span<const interop::PublishedRow> rows, const Options& options) {
  result::Validation out;
  std::set<std::string> seen;
  std::map<std::string, std::variant<RowForecast, Skipped>> known;  // Many rows repeat a job.
  std::size_t done = 0;
  for (const interop::PublishedRow& row : rows) {
    if (options.progress) {
      options.progress(done, rows.size());
    }
    ++done;
    if (const auto measured = interop::operator_case(row.configuration)) {
      out.rows.push_back(compare_operator(row, *measured));
      continue;
    }
    const auto built = interop::job_of(row.configuration);
    if (const auto* skipped = std::get_if<Skipped>(&built)) {
      ValidationRow r = base_row(row);
      r.metric = metric_name(row);
      skip(r, *skipped);
      out.rows.push_back(r);
      continue;
    }
    const std::string& experiment = std::get<interop::RowJob>(built).experiment;
    if (options.distinct && !seen.insert(experiment).second) {
      continue;
    }
    const bool with_layer = of_layer(row.output.metric);
    const std::string key = (with_layer ? "layer " : "") + std::get<interop::RowJob>(built).yaml;
    auto at = known.find(key);
    if (at == known.end()) {
      at = known.emplace(key, forecast_row(forecaster, row.configuration, with_layer)).first;
    }
    if (const auto* skipped = std::get_if<Skipped>(&at->second)) {
      ValidationRow r = base_row(row);
      r.metric = metric_name(row);
      skip(r, *skipped);
      out.rows.push_back(r);
      continue;
    }
    compare_one(row, std::get<RowForecast>(at->second), out.rows);
  }
  out.summary = summarize(out.rows);
  for (const interop::SkipReason& reason : interop::skip_reasons()) {
    const std::string kind(reason.kind);
    const auto count = std::count_if(out.rows.begin(), out.rows.end(), [&](const auto& r) {
      return r.status == "skipped" && r.reason->substr(0, r.reason->find(':')) == kind;
    });
    out.skips.push_back(
        {kind, std::string(reason.meaning), reason.accepted, static_cast<int>(count)});
  }
  return out;
}

}  // namespace stepcast::validate
