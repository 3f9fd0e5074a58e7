// The inputs of every algorithm, and the forecast of its answer.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "stepcast/automatic/algorithms.h"
#include "stepcast/forecast/forecaster.h"

namespace stepcast::automatic {

struct Inputs {
  const search::Request& request;
  const AlgorithmRequest& algorithms;
  const job::Job& base;  // the job without the space's choices
  const search::JobLoader& loader;
  const std::filesystem::path& data;  // the folder that holds the calibration
  forecast::Forecaster& forecaster;
};

// The engine's forecast of the job with these overrides; nullopt, with the reason in `why`, if the
// job is refused.
std::optional<result::Strategy> forecast(const Inputs& in,
                                         const std::vector<std::string>& overrides,
                                         std::string& why);

}  // namespace stepcast::automatic
