// Results of `simulate explain`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "stepcast/result/report.h"

namespace stepcast::result {

// One doubt's part in the interval, and in the gap to a measured step.
struct DoubtShare {
  Doubt doubt;
  double variance = 0;  // share of the interval's
  // With a measured step; deviations of this factor, positive where it takes longer than forecast.
  double alone = 0;     // that would explain the gap by themselves
  double together = 0;  // in the likeliest explanation by all doubts
};

// What to measure, and what would be left of the interval.
struct ToMeasure {
  std::string what;      // the doubt's name
  std::string how;       // a command, or what to state in the job
  double remaining = 0;  // of the interval's width, once this and all before it are known
};

struct MeasuredGap {
  double seconds = 0;     // measured
  double deviations = 0;  // (measured - forecast) / standard deviation of the forecast
  bool inside = false;    // the 90 % interval
};

struct Explanation {
  std::string title;
  std::string job_json;
  Estimate step_time;
  std::vector<PathShare> critical_path;
  std::vector<CurveShare> curves;
  std::vector<DoubtShare> doubts;
  std::vector<ToMeasure> halve;  // until half of the interval's width is left
  std::optional<MeasuredGap> measured;
  std::vector<std::string> notes;
};

}  // namespace stepcast::result
