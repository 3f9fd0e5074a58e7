// Result of `simulate explain`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "stepcast/result/report.h"
#include "stepcast/result/trace.h"

namespace stepcast::result {

// The part of one doubt in the interval, and in the gap to a measured step.
struct DoubtShare {
  Doubt doubt;
  double variance = 0;  // share of the variance of the step time
  // With a measured step, in standard deviations of this factor; positive where the step takes longer than forecast.
  double alone = 0;     // deviations that would explain the gap if only this factor were off
  double together = 0;  // deviations in the likeliest explanation by all doubts together
};

// A measurement to make, and the interval that would remain.
struct ToMeasure {
  std::string what;      // the doubt's name
  std::string how;       // a command, or what to state in the job
  double remaining = 0;  // share of the interval's width that is left once this and all before it are known
};

struct MeasuredGap {
  double seconds = 0;     // measured
  double deviations = 0;  // (measured - forecast) / standard deviation of the forecast
  bool inside = false;    // the measured step lies inside the 90 % interval
};

struct Explanation {
  std::string title;
  std::string job_json;
  Estimate step_time;
  std::vector<PathShare> critical_path;
  std::vector<CurveShare> curves;
  std::vector<DoubtShare> doubts;
  std::vector<ToMeasure> halve;  // in this order, until half of the interval's width is left
  std::optional<MeasuredGap> measured;
  std::vector<TraceExplanation> profiles;  // of profiled ranks
  std::vector<std::string> notes;
};

}  // namespace stepcast::result
