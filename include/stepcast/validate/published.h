// Forecasts compared with published measurements.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <variant>

#include "stepcast/forecast/forecaster.h"
#include "stepcast/interop/published_rows.h"
#include "stepcast/result/validation.h"

namespace stepcast::validate {

// The forecast of a row, which depends on its configuration only.
struct RowForecast {
  interop::RowJob row;
  job::Job job;
  result::Report report;
  std::optional<forecast::Forecaster::LayerTime> layer;  // set where it was asked for
};

std::variant<RowForecast, interop::Skipped> forecast_row(forecast::Forecaster& forecaster,
                                                         const interop::RowConfiguration& configuration,
                                                         bool with_layer = false);

// The predicted value of a measured quantity, in its unit and convention; nullopt where the forecast does not give it.
// Memory measured on one rank is compared with that rank, and otherwise with the largest of all pipeline ranks.
std::optional<result::Estimate> predict(const RowForecast& forecast, const interop::Measurement& measured,
                                        const interop::RowOutput& output);

struct Options {
  bool distinct = false;  // use only the first of the rows with the same model, parallelism and implementation
  std::function<void(std::size_t done, std::size_t all)> progress;
};

// One result for each quantity that a row measured and the forecast gives; summaries for each file and quantity, and over
// all.
result::Validation compare(forecast::Forecaster& forecaster, std::span<const interop::PublishedRow> rows,
                           const Options& options = {});

// Summaries of the results whose `published` is a measurement: one for each file and metric in their order of appearance,
// then, if there are several files, one for each metric over all files (file "all").
std::vector<result::ValidationSummary> summarize(std::span<const result::ValidationRow> rows);

}  // namespace stepcast::validate
