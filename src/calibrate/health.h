// Judges whether a log is of a healthy machine: by physics, by the model of the machine that it is
// said to come from, and by logs of the same kind.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stepcast/result/calibration.h"

namespace stepcast::calibrate {

// One size of one series.
struct Sample {
  std::int64_t bytes = 0;
  double seconds = 0;   // out of place where that was run
  double in_place = 0;  // 0: not run, or not a measurement of its own
  double expected = 0;  // by the model; 0: no model applies
  double residual = 0;  // relative standard deviation of healthy logs about `expected`
};

struct Evidence {
  std::vector<Sample> samples;  // by ascending size
  // The model was fitted to this kind of machine (false: to another kind, or there is none).
  bool own_model = true;
  int wrong = 0;     // sizes whose results were wrong; they are not among the samples
  double peers = 0;  // time over that of the faster logs of its kind; 0: there are no such logs
};

struct Verdict {
  result::Health health = result::Health::healthy;
  std::vector<std::string> reasons;
  double ratio = 0;  // measured over expected at large sizes; 0: no model
};

Verdict judge(const Evidence& evidence);

// For each series, its time at large sizes over the lower quartile of all series, at
// sizes that several of them have; 0 where there are none.
std::vector<double> against_peers(const std::vector<std::vector<Sample>>& series);

}  // namespace stepcast::calibrate
