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

// The combination of this number, the last axis changing fastest: where it stands and what it sets.
result::SweepPoint combination(const std::vector<result::SweepAxis>& axes, std::int64_t number);

// Its forecast, or its best strategy's; `threads` look for that. Fills all but what other
// combinations tell.
void compute(result::SweepPoint& point, const SweepRequest& request,
             forecast::Forecaster& forecaster, const std::filesystem::path& data_directory,
             int threads);

// What `compute` filled, as JSON and back to the last bit.
std::string to_json(const result::SweepPoint& point);
// Throws InputError where `text` is none.
void fill(result::SweepPoint& point, const std::string& text);

}  // namespace stepcast::planner
