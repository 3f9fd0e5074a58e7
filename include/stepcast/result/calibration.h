// Result of `simulate calibrate nccl`: the logs it read and the curves fitted to them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stepcast/base/spelling.h"

namespace stepcast::result {

// Degraded logs are left out of the fit; suspect logs are used, with a warning.
enum class Health { healthy, suspect, degraded };

constexpr auto spellings(Health) {
  return std::to_array<Spelling<Health>>(
      {{Health::healthy, "healthy"}, {Health::suspect, "suspect"}, {Health::degraded, "degraded"}});
}

struct CalibrationPoint {
  std::int64_t bytes = 0;  // as nccl-tests counts them
  double measured = 0;     // seconds: median of repeats, out of place where the log has it
  double expected = 0;     // seconds by the calibration before the fit: committed curves, or NCCL's model
  double fitted = 0;       // seconds by the new curve; 0: not in the fit
};

// One collective operation of one log on one placement of ranks.
struct CalibrationSeries {
  std::string file;
  std::string name;  // of the log in the calibration file: without folders, and unique
  int line = 0;
  std::string op;  // nccl-tests' name
  int nodes = 0, gpus_per_node = 0;
  std::string nccl, algorithm, protocol, date;  // as stated by the log; empty: not stated
  std::vector<CalibrationPoint> points;         // by size
  int wrong = 0;                                // sizes left out because nccl-tests found wrong elements
  Health health = Health::healthy;
  std::vector<std::string> reasons;
  double ratio = 0;           // measured over expected time at large sizes
  std::string expected_from;  // source of the expected times: a calibration file, or "datasheet"
  bool fitted = false;
  std::string left_out;  // reason that the log is not in the fit
  double error = 0;      // median of |fitted / measured - 1| over its points
};

struct CalibrationResidual {
  int points = 0;
  double median = 0;    // of |fitted / measured - 1|
  double left_out = 0;  // the same for a curve fitted without the log (with a single log: without the point)
};

// One curve: an operation among a number of ranks of an NVLink domain, or of domains of the network.
struct CalibrationCurve {
  std::string op;
  std::string scope;  // domain | network
  int size = 0;
  int points = 0;
  double latency = 0;                // seconds, at the smallest size measured
  double bus_bandwidth = 0;          // bytes per second, at the largest
  CalibrationResidual small, large;  // sizes below 1 MiB, and from 1 MiB on
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
  std::vector<CalibrationText> files;  // one per scope; empty: no log was left to fit
};

}  // namespace stepcast::result
