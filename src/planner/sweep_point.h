// One combination of a sweep: a pure function of the job, so that it may be computed anywhere, in
// any order, and kept.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "stepcast/planner/sweep.h"

namespace stepcast::planner {

std::int64_t combinations(const std::vector<result::SweepAxis>& axes);

// The combination with this number (the last axis changes fastest): its place on each axis and the
// keys that it sets.
result::SweepPoint combination(const std::vector<result::SweepAxis>& axes, std::int64_t number);

// The forecast of the combination, or of its best strategy, which is searched on `threads` threads.
// Fills all fields that do not depend on other combinations.
void compute(result::SweepPoint& point, const SweepRequest& request,
             forecast::Forecaster& forecaster, const std::filesystem::path& data_directory,
             int threads);

// Writes what `compute` filled as JSON and reads it back, exact to the last bit.
std::string to_json(const result::SweepPoint& point);
// Throws InputError where `text` is no such JSON.
void fill(result::SweepPoint& point, const std::string& text);

}  // namespace stepcast::planner
