// Forecasts compared with measured runs.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "stepcast/forecast/forecaster.h"
#include "stepcast/result/validation.h"
#include "stepcast/runs/run.h"

namespace stepcast::validate {

// The forecast of a run, which depends on its job only.
struct RunForecast {
  job::Job job;  // with the micro-batch and the recomputation that it is taken to have where the source states none
  bool recomputed = false;  // the source does not state it, and the run fits no other way
  result::Report report;
  std::optional<forecast::Forecaster::LayerTime> layer;  // set where the run measured a layer by itself
};

// Why a run has no forecast.
struct Refused {
  std::string reason;
  std::vector<Fault> faults{};  // where the job as it is written is bad input; none where no such job can run
};

std::variant<RunForecast, Refused> forecast_run(forecast::Forecaster& forecaster, const runs::Run& run);

// The predicted value of a measured quantity of this run, in its unit; nullopt where the forecast does not give
// it. Memory measured on one rank is compared with that rank, and otherwise with the fullest one.
std::optional<result::Estimate> predict(const RunForecast& forecast, const runs::Measurement& measured,
                                        const runs::Run& run);

// The stage whose memory a quantity of memory reads; null where the forecast has none.
const result::StageMemory* measured_stage(const RunForecast& forecast, const runs::Measurement& measured);

// What one step does, for quantities that are rates: the rate is this over the step's seconds. nullopt for other quantities,
// and for utilisations of a device whose peak is not known.
std::optional<double> amount_of_a_step(const job::Job& job, runs::Quantity quantity, model::FlopConvention flops);

struct Options {
  bool distinct = false;  // use only the first of the runs with the same job but for its cluster
  std::function<void(std::size_t done, std::size_t all)> progress;
};

// One result for each quantity that a run measured and the forecast gives; summaries for each file and quantity, and over
// all. A run whose job is at fault or cannot be simulated is a result with status "skipped" and the reason; the faults of
// jobs that cannot be read are listed as well.
result::Validation compare(forecast::Forecaster& forecaster, std::span<const runs::Run> runs, const Options& options = {});

// Summaries of the results whose `published` is a measurement: one for each file and metric in their order of appearance,
// then, if there are several files, one for each metric over all files (file "all").
std::vector<result::ValidationSummary> summarize(std::span<const result::ValidationRow> rows);

}  // namespace stepcast::validate
