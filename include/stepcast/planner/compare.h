// Loops over forecasts: one job under many training systems.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "stepcast/forecast/forecaster.h"
#include "stepcast/result/compare.h"

namespace stepcast::planner {

// All training systems by name; `aliases`: second names of the same system too.
std::vector<std::string> systems(bool aliases);

struct CompareRequest {
  std::string config;                  // as simulate --config
  std::vector<std::string> overrides;  // as --set
  std::vector<std::string> systems;
  forecast::Options options;
};

// Keys that the job states stay; those that a system sets change with it, and nothing of the job's own system is left but
// what it states. A system that refuses the job, or fails, is a row with the reason. `progress` hears of each row as it
// comes. Throws InputError when the job itself is faulty.
result::Comparison compare(const CompareRequest& request, forecast::Forecaster& forecaster,
                           const std::function<void(const result::ComparedSystem&)>& progress = {});

// What a system runs, found by asking it for each strategy on a small job.
result::SystemSummary summary(const std::string& system);
result::SystemDetails details(const std::string& system);

}  // namespace stepcast::planner
