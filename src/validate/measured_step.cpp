#include "stepcast/validate/measured_step.h"

#include <fmt/format.h>

#include <cmath>

#include "stepcast/forecast/forecaster.h"
#include "stepcast/validate/published.h"

namespace stepcast::validate {
namespace {

bool of_a_step(const std::string& metric) {
  return metric == "step_time" || metric == "throughput" || metric == "mfu" || metric == "hfu";
}

}  // namespace

std::variant<result::MeasuredStep, interop::Skipped> measured_step(
    forecast::Forecaster& forecaster, const interop::PublishedRow& row) {
  auto made = forecast_row(forecaster, row.configuration);
  if (const auto* skipped = std::get_if<interop::Skipped>(&made)) {
    return *skipped;
  }
  const RowForecast& forecast = std::get<RowForecast>(made);
  if (!forecast.row.timed) {
    return interop::Skipped{"not timed", "its iteration times mean nothing"};
  }
  result::MeasuredStep step;
  step.id = row.identity.id;
  step.file = row.identity.file;
  step.line = row.identity.line;
  step.job = forecast.job;
  bool stated = false;
  for (const interop::Measurement& m : interop::measurements(row, forecast.row)) {
    if (!of_a_step(m.metric)) {
      continue;
    }
    stated = true;
    const auto predicted = predict(forecast, m, row.output);
    if (!(m.value > 0) || !std::isfinite(m.value) || !predicted || !(predicted->value > 0)) {
      continue;
    }
    // A rate is an amount of work divided by the step time. The amount is the forecast's rate times
    // its own step time.
    const double seconds = m.metric == "step_time"
                               ? m.value
                               : forecast.report.step_time.value * predicted->value / m.value;
    step.seconds = {seconds};
    return step;
  }
  return stated ? interop::Skipped{"no measured value",
                                   "the measured value is missing, zero or no number"}
                : interop::Skipped{"no step", fmt::format("{} tells no time of a whole step",
                                                          row.output.metric)};
}

}  // namespace stepcast::validate
