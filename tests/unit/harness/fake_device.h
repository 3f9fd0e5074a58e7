// A fake GPU that answers by a known law in virtual time.
#pragma once

#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "harness/command.h"
#include "harness/estimate.h"
#include "stepcast/config/config.h"

namespace stepcast::harness {

// The time that the fake measures: the estimate of one execution, with a spread of 10 %.
inline double law(const interop::GpuCase& what) {
  static const Abilities on = abilities_of(config::device("h100-sxm"), 1, 1);
  return seconds_once(what, on);
}

struct World {  // state that persists when the fake is opened again
  double clock = 0;
  int runs = 0;
  std::string name = "NVIDIA H100 80GB HBM3";
  std::int64_t memory = 85'000'000'000;
  int gpus = 1;
  double slower = 1;  // factor in wall time relative to the estimate
  std::function<void(const interop::GpuCase&, int run)> before;  // may throw or ask to stop
  bool stop = false;
};

class FakeDevice final : public Device {
 public:
  explicit FakeDevice(World& world) : world_(world) {}
  interop::GpuSession session() const override {
    interop::GpuSession s;
    s.date = "2026-11-20T21:43:15Z";
    s.gpu = world_.name;
    s.gpus = world_.gpus;
    s.compute_capability = 9.0;
    s.sms = 132;
    s.memory = world_.memory;
    s.l2 = 52'428'800;
    s.sm_clock = 1.98e9;
    s.memory_clock = 2.619e9;
    s.power_limit = 700;
    s.driver = "580.65.06";
    s.cuda = "13.0";
    s.cublas = "13.1.0";
    s.cudnn = "9.19.0";
    s.nccl = "2.28.3";
    return s;
  }
  Samples run(const interop::GpuCase& what, const Policy& policy) override {
    const int run = world_.runs++;
    static const Abilities on = abilities_of(config::device("h100-sxm"), 1, 1);
    world_.clock += world_.slower * estimate(what, on, policy);
    if (world_.before) {
      world_.before(what, run);
    }
    Samples samples;
    for (const double factor : {1.05, 0.95, 1.0, 1.0, 1.0}) {
      samples.seconds.push_back(factor * law(what));
    }
    if (std::holds_alternative<interop::OverlapCase>(what)) {
      samples.alone = samples.other_alone = samples.other_together = law(what);
    }
    samples.sm_clock = 1.7e9;
    samples.power = 650;
    samples.temperature = 55;
    return samples;
  }

 private:
  World& world_;
};

struct Outcome {
  int status = 0;
  std::string out, err;
};

inline Outcome calibrate(World& world, const std::vector<std::string>& arguments) {
  std::vector<const char*> argv = {"calibrate-gpu"};
  for (const std::string& a : arguments) {
    argv.push_back(a.c_str());
  }
  Hooks hooks;
  hooks.open = [&](int) { return std::make_unique<FakeDevice>(world); };
  hooks.gpus_per_node = [] { return std::vector<int>(); };
  hooks.stop = [&] { return world.stop; };
  hooks.clock = [&] { return world.clock; };
  std::ostringstream out;
  std::ostringstream err;
  Outcome o;
  o.status = command(static_cast<int>(argv.size()), argv.data(), hooks, out, err, false);
  o.out = out.str();
  o.err = err.str();
  return o;
}

inline int lines(const std::string& text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace stepcast::harness
