// The border between what needs a GPU and what does not: the harness plans, repeats, stores and
// reports; a Device runs one case. Tests put one of their own behind it.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "stepcast/interop/gpu_measurements.h"

namespace stepcast::harness {

// No usable GPU, driver or library: one line for the user, exit status 2.
struct NoDevice : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// This device or library cannot run this case (fp8 before Hopper, memory too small): skipped, kept
// in the file with the reason.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// This build lacks the library: not kept, since another build may have it.
struct NotBuiltIn : Unsupported {
  using Unsupported::Unsupported;
};

// Every repetition of one case, seconds each (mean of a batch of launches where one is too short to
// time), after warm-up.
struct Samples {
  std::vector<double> seconds;
  double alone = 0, other_alone = 0, other_together = 0;  // of OverlapCase
  double sm_clock = 0, power = 0, temperature = 0;        // 0: not known
};

// How long one case may take and how often it is repeated.
struct Policy {
  int warmups = 3;
  int samples = 20;             // at least 5 are taken however slow
  double budget = 0.25;         // seconds for all samples of a burst case
  double sustained_warmup = 2;  // seconds at load before a sustained case is timed
  double sustained = 2;         // seconds timed
  std::uint64_t seed = 1;       // of the random operands
};

class Device {
 public:
  virtual ~Device() = default;
  virtual interop::GpuSession session() const = 0;
  // Throws Unsupported; std::runtime_error when the device failed (the run ends, what was measured
  // stays).
  virtual Samples run(const interop::GpuCase& what, const Policy& policy) = 0;
};

// calibration/cuda/open.cpp. `gpu`: index among the visible ones. Throws NoDevice.
std::unique_ptr<Device> open_device(int gpu);

}  // namespace stepcast::harness
