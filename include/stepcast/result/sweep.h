// One job over all combinations of values of some of its keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stepcast/base/quantity.h"
#include "stepcast/result/report.h"

namespace stepcast::result {

// Keys that change together; usually one.
struct SweepAxis {
  std::vector<std::string> keys;                 // "cluster.nodes"
  std::vector<std::vector<std::string>> values;  // at each position one value per key, as given to "--set KEY="
};

// One combination of values. SI base units; all figures are 0 where there is no forecast.
struct SweepPoint {
  std::vector<std::size_t> at;         // position on each axis
  std::vector<std::string> overrides;  // values of the axes, in their order: "cluster.nodes=8"
  bool ran = false;                    // there is a forecast
  // For a point that ran: whether memory is enough, including that of the host and of drives.
  Fit fits;
  // The reason that there is no forecast, with the key of the job or the place in a file at fault; or by how much the point
  // does not fit.
  std::string key, reason;
  bool failed = false;                // an error of the simulator, not of the job; `reason` is its message
  std::vector<std::string> strategy;  // in an optimized sweep: overrides chosen by the search

  std::int64_t nodes = 0, gpus = 0;
  Estimate step_time;                  // seconds
  Estimate tokens_per_second_per_gpu;  // 1/s
  Estimate model_flops_per_gpu;        // FLOP/s
  Estimate mfu, hfu;                   // fractions
  Estimate peak;                       // process memory of the fullest GPU, bytes
  double tokens_per_second = 0;        // of all GPUs
  Bytes capacity;                      // usable, per GPU
  double bubble_fraction = 0;          // of the step
  double exposed = 0;                  // exposed communication: seconds, mean over stages
  double gpu_seconds = 0;              // GPUs x step time
  double gpu_hours_per_gigatoken = 0;  // GPU-hours for 1e9 tokens
  // Tokens/s/GPU over that of the point with the fewest GPUs that fits, with equal values of all other axes; only where an
  // axis changes the number of GPUs.
  std::optional<double> efficiency;
  bool on_front =
      false;  // fits, and no other point that fits is better in step time or GPU-seconds and no worse in the other
};

struct Sweep {
  std::string title;     // "llama70b: cluster.nodes x cluster.device"
  std::string fidelity;  // bound | folded | full
  // In an optimized sweep, the objective of its strategies: time | cost | energy; else "".
  std::string objective;
  std::vector<std::string> overrides;  // those of all points: --set
  std::vector<SweepAxis> axes;
  std::optional<std::size_t> scaling_axis;  // along which `efficiency` is counted
  std::vector<SweepPoint> points;           // all combinations, the last axis changing fastest
};

}  // namespace stepcast::result
