#include "sensors.h"

#include <chrono>

namespace stepcast::harness::cuda {

SensorLog::~SensorLog() { (void)stop(); }

void SensorLog::start(int gpu) {
  (void)stop();
  stop_ = false;
  sum_ = {};
  reads_ = 0;
  if (!has_sensors(gpu)) {
    return;
  }
  thread_ = std::thread([this, gpu] {
    while (!stop_) {
      const Sensors now = read_sensors(gpu);
      sum_.sm_clock += now.sm_clock;
      sum_.power += now.power;
      sum_.temperature += now.temperature;
      ++reads_;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
}

Sensors SensorLog::stop() {
  stop_ = true;
  if (thread_.joinable()) {
    thread_.join();
  }
  Sensors mean;
  if (reads_ > 0) {
    mean.sm_clock = sum_.sm_clock / reads_;
    mean.power = sum_.power / reads_;
    mean.temperature = sum_.temperature / reads_;
  }
  return mean;
}

}  // namespace stepcast::harness::cuda
