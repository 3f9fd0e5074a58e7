// Clocks, power and temperature: nvml.cpp (the driver's management library, opened at run time
// because a machine may lack it) or ../hip/amdgpu.cpp (files of the driver).
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "bench.h"

namespace stepcast::harness::cuda {

// Properties that do not change during a run; zeros and "" if not known.
struct Limits {
  double sm_clock = 0;      // Hz, the maximum
  double memory_clock = 0;  // Hz
  double power = 0;         // W
  std::string driver;       // "580.65.06"
};
Limits read_limits(int gpu);
bool has_sensors(int gpu);

// Means of clock, power and temperature between start and stop, sampled by a separate thread.
class SensorLog {
 public:
  SensorLog() = default;
  ~SensorLog();
  SensorLog(const SensorLog&) = delete;
  SensorLog& operator=(const SensorLog&) = delete;
  void start(int gpu);
  Sensors stop();

 private:
  std::thread thread_;
  std::atomic<bool> stop_{false};
  Sensors sum_;
  int reads_ = 0;
};

}  // namespace stepcast::harness::cuda
