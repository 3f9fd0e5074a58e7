// Goodput of a long run: the share of its wall clock that trains, after failures, checkpoints and waiting.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "stepcast/result/report.h"

namespace stepcast::result {

// Times are plain seconds of wall clock, since a run can be longer than Time can hold.
struct Goodput {
  std::string title;       // of the job: "llama-3.1-405b on 2048 x dgx-h100"
  std::string operations;  // name of the file of failure rates
  double days = 0;         // wall clock of a simulated run
  int runs = 0;
  double interval = 0;                   // seconds of training between two checkpoints
  double steps = 0;                      // the same in steps, of which it is a whole number; 0: the step is not known
  double storage = 0, node_storage = 0;  // B/s that checkpoints are written at: all together, of a node; 0: no limit
  bool chosen = false;                   // the interval was not given; it is the one with the least expected loss
  double young = 0, daly = 0;            // intervals by Young's and by Daly's formula for this pause and these failures
  double mean_time_between_failures = 0;
  double checkpoint_bytes = 0, pause = 0, durable = 0,
         load = 0;         // pause: training waits; durable: until the checkpoint is safe
  Estimate effective;      // share of the wall clock that trains; 5th to 95th percentile of the runs
  double expected = 0;     // the same share by the renewal formula
  Estimate interruptions;  // number in one run
  std::vector<std::pair<std::string, double>> losses;    // shares of the wall clock; with `effective` they add up to one
  std::vector<std::pair<std::string, double>> failures;  // expected number in one run by kind, the most frequent first
  Estimate tokens_per_day;
  Estimate training_days;  // to train on workload.tokens; 0: not stated
};

}  // namespace stepcast::result
