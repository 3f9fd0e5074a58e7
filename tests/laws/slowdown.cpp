// Laws of lower/passes/slowdown.h: how much kernels slow down during communication.
#include "lower/passes/slowdown.h"

#include <cmath>

#include "catch.hpp"

using namespace stepcast;
using namespace stepcast::lower;

namespace {

job::Device a100() {
  job::Device d;
  d.sms = 108;
  d.memory_bandwidth = Bandwidth(2039e9);
  return d;
}

cost::CollectivePrice price(int sms, double share) {
  cost::CollectivePrice p;
  p.sms = sms;
  p.fluid = seconds(1e-3);
  p.memory = Bytes(static_cast<std::int64_t>(share * 2039e9 * 1e-3));
  return p;
}

std::int64_t speed(int kind, int pressure) {
  const auto s = slowdown_of(a100(), kind);
  return s.speed[std::min<std::size_t>(static_cast<std::size_t>(pressure), s.speed.size() - 1)];
}

int pressure(int sms, double share) {
  return pressure_of(price(sms, share), a100().memory_bandwidth);
}

}  // namespace

TEST_CASE("arithmetic runs at the SMs that are left, memory at the bandwidth that is left") {
  for (const int sms : {1, 12, 16, 24, 54}) {
    for (const double share : {0.0, 0.25, 0.5}) {
      INFO(sms << " SMs, " << share);
      CHECK(speed(kArithmeticBound, pressure(sms, share)) ==
            std::lround(1e6 / (1 / (1 - sms / 108.0))));
      CHECK(speed(kMemoryBound, pressure(sms, share)) == std::lround(1e6 * (1 - share)));
    }
  }
  // Galvatron's coefficient on A100 (1.126) equals the loss of arithmetic on 12 SMs.
  CHECK(1e6 / static_cast<double>(speed(kArithmeticBound, pressure(12, 0.1))) ==
        Approx(1.126).epsilon(0.002));
}

TEST_CASE("nothing is counted twice, nothing stops, and more pressure is never faster") {
  for (int kind = 0; kind < kKernelKinds; ++kind) {
    const auto s = slowdown_of(a100(), kind);
    CHECK(s.speed.front() == 1'000'000);
    for (const std::int64_t v : s.speed) {
      REQUIRE(v > 0);
      REQUIRE(v <= 1'000'000);
    }
    for (const int sms : {0, 8, 32, 60}) {
      for (int units = 0; units < 24; ++units) {
        const double share = units / 32.0;
        const auto v = speed(kind, pressure(sms, share));
        CHECK(speed(kind, pressure(sms + 3, share)) <= v);
        CHECK(speed(kind, pressure(sms, share + 1 / 32.0)) <= v);
        // The result is between those of the two parts and never below both combined.
        const auto arithmetic = speed(kArithmeticBound, pressure(sms, share));
        const auto memory = speed(kMemoryBound, pressure(sms, share));
        CHECK(v >= std::min(arithmetic, memory) - 1);
        CHECK(v <= std::max(arithmetic, memory) + 1);
      }
    }
  }
}

TEST_CASE("kernels side by side add up") {
  const int sum = pressure(16, 0.25) + pressure(24, 0.125) + pressure(8, 0);
  CHECK(sum == pressure(48, 0.375));
  // Even four times the largest pressure on SMs takes no memory bandwidth.
  CHECK(speed(kMemoryBound, 4 * pressure(64, 0)) == 1'000'000);
}

TEST_CASE("measured coefficients scale what is lost; no kernel stops, more is never faster") {
  const auto at = [](int kind, int p, const cost::Overlap& o) {
    const auto s = slowdown_of(a100(), kind, o);
    return static_cast<double>(
        s.speed[std::min<std::size_t>(static_cast<std::size_t>(p), s.speed.size() - 1)]);
  };
  cost::Overlap half;
  half.arithmetic = 0.5;
  half.memory = 1.25;
  CHECK(at(kArithmeticBound, pressure(24, 0.25), half) == Approx(1e6 * (1 - 0.5 * 24 / 108.0)));
  CHECK(at(kMemoryBound, pressure(24, 0.25), half) == Approx(1e6 * (1 - 1.25 * 0.25)));
  const cost::Overlap none{0, 0};
  for (const double a : {0.0, 0.5, 1.0, 2.0, 4.0}) {
    for (const double b : {0.0, 0.5, 1.0, 4.0}) {
      cost::Overlap o;
      o.arithmetic = a;
      o.memory = b;
      for (int kind = 0; kind < kKernelKinds; ++kind) {
        const auto s = slowdown_of(a100(), kind, o);
        CHECK(s.speed.front() == 1'000'000);
        for (std::size_t i = 0; i < s.speed.size(); ++i) {
          REQUIRE(s.speed[i] >= 100'000);
          REQUIRE(s.speed[i] <= 1'000'000);
          REQUIRE((i % 256 == 0 || s.speed[i] <= s.speed[i - 1]));
          REQUIRE((i < 256 || s.speed[i] <= s.speed[i - 256]));
        }
        CHECK(at(kind, pressure(16, 0.25), o) <= at(kind, pressure(16, 0.25), none));
      }
    }
  }
}

TEST_CASE("one entry by itself is the table's") {
  const cost::Overlap measured{0.5, 1.25};
  for (const cost::Overlap& o : {cost::Overlap{}, measured}) {
    for (int kind = 0; kind < kKernelKinds; ++kind) {
      const auto s = slowdown_of(a100(), kind, o);
      for (std::size_t i = 0; i < s.speed.size(); ++i) {
        REQUIRE(speed_beside(a100(), kind, o, static_cast<std::uint16_t>(i)) == s.speed[i]);
      }
      CHECK(speed_beside(a100(), kind, o, 0xffff) == s.speed.back());
    }
  }
}

TEST_CASE("an overlap that was not measured is the published law") {
  for (int kind = 0; kind < kKernelKinds; ++kind) {
    CHECK(slowdown_of(a100(), kind).speed == slowdown_of(a100(), kind, {1, 1}).speed);
  }
}
