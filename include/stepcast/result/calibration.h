// What `simulate calibrate nccl` found in logs and fitted to them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stepcast::result {

// Degraded logs stay out of a fit; suspect ones are in it, with a word of warning.
enum class Health { healthy, suspect, degraded };

constexpr auto spellings(Health) {
  return std::to_array<Spelling<Health>>(
      {{Health::healthy, "healthy"}, {Health::suspect, "suspect"}, {Health::degraded, "degraded"}});
}

struct CalibrationPoint {
  std::int64_t bytes = 0;  // as nccl-tests counts them
  double measured = 0;     // seconds: median of repeats, out of place where that was run
  double expected = 0;     // what the calibration said before: committed curves, or NCCL's model
  double fitted = 0;       // what the new curve says; 0: not in the fit
};

// One collective of one log on one placement.
struct CalibrationSeries {
  std::string file;
  std::string name;  // the log's in the calibration file: no folders, each once
  int line = 0;
  std::string op;  // nccl-tests' name
  int nodes = 0, gpus_per_node = 0;
  std::string nccl, algorithm, protocol, date;  // as the log states them; empty: it does not
  std::vector<CalibrationPoint> points;         // by size
  int wrong = 0;                                // sizes left out: the check found wrong elements
  Health health = Health::healthy;
  std::vector<std::string> reasons;
  double ratio = 0;           // measured over expected time at large sizes
  std::string expected_from;  // whose curve that is: a calibration file, or "datasheet"
  bool fitted = false;
  std::string left_out;  // why it is not in the fit
  double error = 0;      // median of |fitted / measured - 1|
};

struct CalibrationResidual {
  int points = 0;
  double median = 0;    // of |fitted / measured - 1|
  double left_out = 0;  // the same where the curve did not see the log (of a single log: the point)
};

// One curve: an operation among so many ranks of a domain, or so many domains of the network.
struct CalibrationCurve {
  std::string op;
  std::string scope;  // domain | network
  int size = 0;
  int points = 0;
  double latency = 0;                // seconds, at the smallest size measured
  double bus_bandwidth = 0;          // bytes per second, at the largest
  CalibrationResidual small, large;  // below 1 MiB, and from there on
};

struct CalibrationText {
  std::string scope;
  std::string yaml;  // a calibration file
};

struct Calibration {
  std::string system;
  std::string cluster;
  std::vector<CalibrationSeries> series;
  std::vector<CalibrationCurve> curves;
  std::vector<CalibrationText> files;  // one a scope; none: nothing was left to fit
};

}  // namespace stepcast::result
