// The driver's management library, opened at run time: a machine may lack it.
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "bench.h"

namespace stepcast::harness::cuda {

// What does not change while it runs; zeros and "" where not known.
struct Limits {
  double sm_clock = 0;      // Hz, the highest
  double memory_clock = 0;  // Hz
  double power = 0;         // W
  std::string driver;       // "580.65.06"
};
Limits read_limits(int gpu);

// Means of clock, power and temperature between start and stop, read by a thread of its own.
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
