// What kernels lose at least beside collectives.
#include "lower/times/beside.h"

#include "catch.hpp"

namespace stepcast::lower::test {
namespace {

hardware::Device a100() {
  hardware::Device d;
  d.sms = 108;
  d.memory_bandwidth = Bandwidth(2039e9);
  return d;
}

constexpr double kShare = 12 / 108.0;  // of the SMs

// Holds 12 SMs, and reads and writes nothing.
cost::CollectivePrice collective(double milliseconds) {
  cost::CollectivePrice p;
  p.sms = 12;
  p.fluid = seconds(milliseconds * 1e-3);
  return p;
}

double milliseconds(Time t) { return to_seconds(t) * 1e3; }

}  // namespace

TEST_CASE("A kernel loses the collective's SMs for as long as that runs", "[lower]") {
  const hardware::Device device = a100();
  const cost::Overlap overlap;
  Slowed slowed(device, overlap);
  slowed.launched(kTensor, collective(2));
  slowed.launched(kTensor, collective(1));
  slowed.ran(kArithmeticBound);
  CHECK(milliseconds(slowed.lost(kTensor)) == Approx(3 * kShare).epsilon(1e-4));
  CHECK(slowed.lost(kTensor) == Time(0));  // nothing has been launched since
}

TEST_CASE("Memory-bound kernels lose nothing to SMs, nor does a stream that runs none", "[lower]") {
  const hardware::Device device = a100();
  const cost::Overlap overlap;
  Slowed slowed(device, overlap);
  slowed.launched(kTensor, collective(2));
  CHECK(slowed.lost(kTensor) == Time(0));
  slowed.launched(kTensor, collective(2));
  slowed.ran(kArithmeticBound);
  slowed.ran(kMemoryBound);  // the collective may lie beside this one alone
  CHECK(slowed.lost(kTensor) == Time(0));
}

TEST_CASE("What lies beside idle time slows nothing", "[lower]") {
  const hardware::Device device = a100();
  const cost::Overlap overlap;
  Slowed slowed(device, overlap);
  slowed.idle(seconds(1));  // before it
  slowed.launched(kTensor, collective(2));
  slowed.ran(kArithmeticBound);
  slowed.idle(seconds(0.5e-3));
  CHECK(milliseconds(slowed.lost(kTensor)) == Approx(1.5 * kShare).epsilon(1e-4));
}

TEST_CASE("Of streams beside each other one counts", "[lower]") {
  const hardware::Device device = a100();
  const cost::Overlap overlap;
  Slowed slowed(device, overlap);
  slowed.launched(kTensor, collective(2));
  slowed.launched(kExpert, collective(4));
  slowed.ran(kArithmeticBound);
  CHECK(slowed.lost(kTensor) > Time(0));
  CHECK(slowed.lost(kExpert) == Time(0));
}

}  // namespace stepcast::lower::test
