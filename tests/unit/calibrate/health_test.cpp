// Each kind of evidence separately, on synthetic curves.
#include "calibrate/health.h"

#include <cmath>

#include "calibrate/device_names.h"
#include "catch.hpp"

namespace {

using namespace stepcast;
using calibrate::Evidence;
using calibrate::Sample;
using result::Health;

// 1 KiB to 1 GiB at 20 us and 20 GB/s; healthy logs are within 10 % of that.
std::vector<Sample> machine(double slower = 1) {
  std::vector<Sample> out;
  for (std::int64_t bytes = 1 << 10; bytes <= 1 << 30; bytes *= 2) {
    const double expected = 20e-6 + static_cast<double>(bytes) / 20e9;
    const double time = 20e-6 + slower * static_cast<double>(bytes) / 20e9;
    out.push_back({bytes, time, time * 1.02, expected, 0.1});
  }
  return out;
}

Health health(const Evidence& evidence) { return calibrate::judge(evidence).health; }

}  // namespace

TEST_CASE("a log as its model expects is healthy, without a word") {
  const auto verdict = calibrate::judge({machine()});
  CHECK(verdict.health == Health::healthy);
  CHECK(verdict.reasons.empty());
  CHECK(verdict.ratio == Approx(1));
}

TEST_CASE("half the bandwidth is suspect, less is degraded; another machine's model proves less") {
  CHECK(health({machine(1.3)}) == Health::healthy);
  CHECK(health({machine(1.9)}) == Health::suspect);
  CHECK(health({machine(2.2)}) == Health::degraded);
  CHECK(health({machine(2.5), false}) == Health::healthy);
  CHECK(health({machine(3.5), false}) == Health::suspect);
  CHECK(health({machine(4.5), false}) == Health::degraded);
  // If healthy logs differ from the model by a factor of e^(1.645 * 0.7) = 3.2, a factor of 3
  // proves nothing.
  auto vague = machine(3);
  for (Sample& s : vague) {
    s.residual = 0.7;
  }
  CHECK(health({vague}) == Health::healthy);
  // A high latency alone is no sign of a broken link.
  auto slow_start = machine();
  for (Sample& s : slow_start) {
    s.seconds += 50e-6;
  }
  CHECK(health({slow_start}) == Health::healthy);
  CHECK(health({machine(0.4)}) == Health::suspect);  // too fast for this machine
}

TEST_CASE("logs of one kind judge each other where no model does") {
  const auto blind = [](double slower) {
    auto samples = machine(slower);
    for (Sample& s : samples) {
      s.expected = 0;
    }
    return samples;
  };
  const std::vector<std::vector<Sample>> logs{blind(4), blind(1), blind(5), blind(1.1), blind(4.5)};
  const auto peers = calibrate::against_peers(logs);
  REQUIRE(peers.size() == 5);
  CHECK(peers[0] == Approx(4 / 1.1).epsilon(0.05));
  CHECK(peers[1] < 1);
  for (std::size_t i = 0; i < logs.size(); ++i) {
    CHECK(health({logs[i], true, 0, peers[i]}) ==
          (i == 1 || i == 3 ? Health::healthy : Health::degraded));
  }
  // A single log, or sizes that no other log has, have nothing to be compared with.
  CHECK(calibrate::against_peers({blind(4)}) == std::vector<double>{0});
}

TEST_CASE("bandwidth that falls with size, halves that differ, wrong results") {
  auto falling = machine();
  for (Sample& s : falling) {
    s.expected = 0;
    if (s.bytes > 64 << 20) {
      s.seconds *= 2.5;
      s.in_place *= 2.5;
    }
  }
  CHECK(health({falling}) == Health::degraded);
  CHECK(calibrate::judge({falling}).reasons.at(0).find("40 % of what 64 MiB reached") !=
        std::string::npos);

  auto halves = machine();
  for (Sample& s : halves) {
    s.in_place = s.seconds * 1.6;
  }
  CHECK(health({halves}) == Health::suspect);

  CHECK(health({machine(), true, 1}) == Health::suspect);
  CHECK(health({machine(), true, 20}) == Health::degraded);  // of 41 sizes
}

TEST_CASE("a log of small messages is judged by what it has; none at all by nothing") {
  auto few = machine(1);
  few.resize(3);
  for (Sample& s : few) {
    s.seconds *= 5;
  }
  CHECK(health({few}) == Health::degraded);
  CHECK(health({{}}) == Health::healthy);
}

TEST_CASE("a driver's name of a GPU beside ours") {
  using calibrate::may_be;
  CHECK(may_be("NVIDIA A100-SXM4-80GB", "a100-sxm-80"));
  CHECK(may_be("A100-SXM4-40GB", "a100-sxm-80"));
  CHECK(may_be("NVIDIA GH200 120GB", "gh200"));
  CHECK(may_be("NVIDIA GeForce RTX 4090", "rtx4090"));
  CHECK(may_be("NVIDIA L40S", "l40s"));
  CHECK(may_be("Tesla V100-SXM2-32GB", "v100-sxm2-32"));
  CHECK(may_be("a GPU", "h100-sxm"));  // names no model
  CHECK_FALSE(may_be("NVIDIA H100 80GB HBM3", "a100-sxm-80"));
  CHECK_FALSE(may_be("NVIDIA H200", "h100-sxm"));
  CHECK_FALSE(may_be("NVIDIA GB200", "b200-sxm"));
}
