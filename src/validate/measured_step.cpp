#include "stepcast/validate/measured_step.h"

#include <utility>

namespace stepcast::validate {
namespace {

// Seconds of a step, from the first quantity of the run that gives them.
std::vector<double> seconds_of(const runs::Run& run, const job::Job& job) {
  for (const runs::Measurement& m : run.measured) {
    if (m.quantity == runs::Quantity::step_time) {
      return m.values;
    }
    if (const auto amount = amount_of_a_step(job, m.quantity, run.flops)) {
      return {*amount / m.value()};
    }
  }
  return {};
}

}  // namespace

std::variant<result::MeasuredStep, Refused> measured_step(forecast::Forecaster& forecaster,
                                                          const runs::Run& run) {
  result::MeasuredStep step;
  step.id = run.id;
  step.file = run.file;
  step.line = run.origin.line;
  step.date = run.date;
  if (run.op) {
    return Refused{"it measures one operator, not a step"};
  }
  step.job = runs::job_of(run).job;
  if (run.micro_batch_open() || run.recompute_open()) {
    auto forecast = forecast_run(forecaster, run);
    if (auto* refused = std::get_if<Refused>(&forecast)) {
      return std::move(*refused);
    }
    step.job = std::move(std::get<RunForecast>(forecast).job);
  }
  step.seconds = seconds_of(run, step.job);
  if (step.seconds.empty()) {
    return Refused{"it states no time of a whole step"};
  }
  return step;
}

}  // namespace stepcast::validate
