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
  std::vector<std::string> overrides;  // "cluster.nodes=8": of the axes, in their order
  bool ran = false;                    // there is a forecast
  // Of a point that ran: whether memory is enough, that of the host and of drives included.
  bool fits = false;
  // Why there is no forecast (`key`: what is at fault: a key of the job or a place in a file), or by how much it does not
  // fit.
  std::string key, reason;
  bool failed = false;                // an error of the simulator, not of the job; `reason` is its message
  std::vector<std::string> strategy;  // of an optimized sweep: overrides chosen by the search

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
  // Tokens/s/GPU over that of the least number of GPUs that fits, all other axes alike; only where an axis changes the
  // number of GPUs.
  std::optional<double> efficiency;
  bool on_front = false;  // fits, and no other that fits is as fast for fewer GPU-seconds, or faster for as many
};

struct Sweep {
  std::string title;     // "llama70b: cluster.nodes x cluster.device"
  std::string fidelity;  // bound | folded | full
  // Of an optimized sweep, the objective of its strategies: time | cost | energy; else "".
  std::string objective;
  std::vector<std::string> overrides;  // --set: of all points
  std::vector<SweepAxis> axes;
  std::optional<std::size_t> scaling_axis;  // along which `efficiency` is counted
  std::vector<SweepPoint> points;           // all combinations, the last axis changing fastest
};

}  // namespace stepcast::result
