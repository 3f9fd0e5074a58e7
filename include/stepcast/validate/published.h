// Forecasts against published measurements.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <variant>

#include "stepcast/forecast/forecaster.h"
#include "stepcast/interop/published_rows.h"
#include "stepcast/result/validation.h"

namespace stepcast::validate {

// The forecast of a row, made from its configuration alone.
struct RowForecast {
  interop::RowJob row;
  job::Job job;
  result::Report report;
  std::optional<forecast::Forecaster::LayerTime> layer;  // filled when asked for
};

std::variant<RowForecast, interop::Skipped> forecast_row(forecast::Forecaster& forecaster,
                                                         const interop::RowConfiguration& configuration,
                                                         bool with_layer = false);

// What the forecast says about a measured quantity, in its unit and convention; nothing when it
// does not say. Memory read on one rank is that rank's; else the largest of all pipeline ranks.
std::optional<result::Estimate> predict(const RowForecast& forecast, const interop::Measurement& measured,
                                        const interop::RowOutput& output);

struct Options {
  bool distinct = false;  // of rows with the same model, parallelism and implementation only the first
  std::function<void(std::size_t done, std::size_t all)> progress;
};

// One result per quantity that a row measured and the forecast gives; summaries per file and
// quantity, and over all.
result::Validation compare(forecast::Forecaster& forecaster, std::span<const interop::PublishedRow> rows,
                           const Options& options = {});

// Summaries of results whose `published` is a measurement: per file and metric in order of
// appearance, then per metric over all files (file "all") when there are several.
std::vector<result::ValidationSummary> summarize(std::span<const result::ValidationRow> rows);

}  // namespace stepcast::validate
