// How much of a long run trains: what failures, checkpoints and waiting leave of it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "stepcast/result/report.h"

namespace stepcast::result {

// Times in seconds of wall clock: runs outlast what Time holds.
struct Goodput {
  std::string title;       // of the job: "llama-3.1-405b on 2048 x dgx-h100"
  std::string operations;  // the file that says what fails
  double days = 0;         // wall clock of a simulated run
  int runs = 0;
  double interval = 0;         // seconds of training between two checkpoints
  bool chosen = false;         // by us: the least expected loss
  double young = 0, daly = 0;  // Young's and Daly's interval of this pause and these failures
  double mean_time_between_failures = 0;
  double checkpoint_bytes = 0, pause = 0, durable = 0, load = 0;  // pause: training stands; durable: until it is safe
  Estimate effective;      // share of the wall clock that trains; 5th to 95th percentile of the runs
  double expected = 0;     // the same by the renewal formula
  Estimate interruptions;  // of a run
  std::vector<std::pair<std::string, double>> losses;    // shares of the wall clock; with `effective` they add up to one
  std::vector<std::pair<std::string, double>> failures;  // expected of a run, by kind, most first
  Estimate tokens_per_day;
  Estimate training_days;  // of workload.tokens; 0: not stated
};

}  // namespace stepcast::result
