// What several search algorithms find for one job.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stepcast/result/search.h"

namespace stepcast::result {

struct AlgorithmAnswer {
  std::string name;  // "alpa"
  bool found = false;
  Strategy strategy;                // the nearest job, forecast by the engine
  double predicted = 0;             // seconds of a step by the algorithm's own cost model; 0: none of its own
  std::string plan;                 // in its own terms: "8 stages of 128 GPUs"
  std::vector<std::string> losses;  // what a job cannot say of that
  std::int64_t tried = 0;           // programs solved, moves, candidates
  std::string tried_unit;           // "integer programs"
  double seconds = 0;               // that it took; of this machine, in no saved answer
  std::string why_not;              // nothing found: why
};

struct Algorithms {
  std::string title;
  std::string objective;
  std::vector<AlgorithmAnswer> answers;  // in the order asked for
};

}  // namespace stepcast::result
