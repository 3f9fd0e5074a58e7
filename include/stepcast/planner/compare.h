// One job forecast under several training systems.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "stepcast/forecast/forecaster.h"
#include "stepcast/result/compare.h"

namespace stepcast::planner {

// The names of all training systems. `aliases`: include second names of the same system.
std::vector<std::string> systems(bool aliases);

struct CompareRequest {
  std::string config;                  // as `simulate --config` takes it
  std::vector<std::string> overrides;  // as --set takes them
  std::vector<std::string> systems;
  forecast::Options options;
};

// Keys that the job states keep their values; keys that a system sets take that system's values. A system that refuses the
// job, or fails on it, becomes a row with the reason. `progress` is called with each row when it is ready. Throws InputError
// where the job itself is faulty.
result::Comparison compare(const CompareRequest& request, forecast::Forecaster& forecaster,
                           const std::function<void(const result::ComparedSystem&)>& progress = {});

// The strategies that a system supports, found by resolving a small job with each of them.
result::SystemSummary summary(const std::string& system);
result::SystemDetails details(const std::string& system);

}  // namespace stepcast::planner
