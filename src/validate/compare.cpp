#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "operator_rows.h"
#include "stepcast/config/config.h"
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
    out.job = config::parse(row.yaml, "row", overrides).job;
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
      auto layer = forecaster.layer_time(out.job);
      if (const auto* e = std::get_if<result::Estimate>(&layer)) {
        out.layer = *e;
      }
    }
    return out;
  } catch (const InputError&) {
    throw;  // a calibration file is at fault, not the row
  } catch (const std::exception& error) {
    return Skipped{"not possible", first_line(error.what())};
  }
}

ValidationRow base_row(const interop::PublishedRow& row) {
  ValidationRow out;
  out.id = row.identity.id;
  out.source = row.identity.source;
  out.file = row.identity.file;
  return out;
}

// The row's own metric under our name, for rows that yield no number.
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
    if (m.metric == "oom") {
      r.error = std::abs(r.predicted - r.published);
    } else if (m.value > 0) {
      r.error = (r.predicted - r.published) / r.published;
      // Memory is compared whether it fits or not, and a layer was measured without the rest of its
      // model.
      const bool whole_step =
          m.metric != "peak_memory" && m.metric != "steady_memory" && m.metric != "layer_time";
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
    r.status = "skipped";
    r.reason = Skipped{"calculation", row.output.metric + " is no quantity of a forecast"}.text();
    out.push_back(r);
  }
}

// A row that measures one operator: allocated bytes.
ValidationRow compare_operator(const interop::PublishedRow& row,
                               const interop::OperatorCase& measured) {
  ValidationRow r = base_row(row);
  r.metric = metric_name(row);
  const auto peak = operator_peak(measured);
  if (const auto* skipped = std::get_if<Skipped>(&peak)) {
    r.status = "skipped";
    r.reason = skipped->text();
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
  // The largest micro-batch (a power of two that divides each rank's share) that surely fits: with
  // all of its interval.
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
  std::map<std::string, std::variant<RowForecast, Skipped>> known;  // many rows repeat a job
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
      r.status = "skipped";
      r.reason = skipped->text();
      out.rows.push_back(r);
      continue;
    }
    const std::string& experiment = std::get<interop::RowJob>(built).experiment;
    if (options.distinct && !seen.insert(experiment).second) {
      continue;
    }
    const bool with_layer = row.output.metric == "layer_fwd_bwd_ms";
    const std::string key = (with_layer ? "layer " : "") + std::get<interop::RowJob>(built).yaml;
    auto at = known.find(key);
    if (at == known.end()) {
      at = known.emplace(key, forecast_row(forecaster, row.configuration, with_layer)).first;
    }
    if (const auto* skipped = std::get_if<Skipped>(&at->second)) {
      ValidationRow r = base_row(row);
      r.metric = metric_name(row);
      r.status = "skipped";
      r.reason = skipped->text();
      out.rows.push_back(r);
      continue;
    }
    compare_one(row, std::get<RowForecast>(at->second), out.rows);
  }
  out.summary = summarize(out.rows);
  return out;
}

}  // namespace stepcast::validate
