#include "slowdown.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace stepcast::lower {
namespace {

// Of the whole bandwidth. With coarser units, rounding would hide what a slow collective takes and
// double what a faster one does.
constexpr int kMemoryUnits = 128;
constexpr int kSmSlots = 256;        // SMs below one memory unit
constexpr int kMaxSmsOfKernel = 63;  // by one kernel: four of them never reach a memory unit
constexpr int kMaxUnits = kMemoryUnits * 3 / 4;  // communication never takes all of the memory
// A kernel never stops, whatever coefficients were measured at smaller shares, since the schedulers
// of SMs and memory serve it too. At a coefficient of 1, communication takes at most half of the
// SMs and three quarters of the memory bandwidth.
constexpr double kMinSpeed = 0.1;

}  // namespace

std::uint16_t pressure_of(const cost::CollectivePrice& price, Bandwidth memory) {
  const double time = to_seconds(price.latency + price.fluid);
  const double taken = time > 0 && memory.count() > 0
                           ? static_cast<double>(price.memory.count()) / time / memory.count()
                           : 0;
  const auto units = static_cast<int>(std::lround(std::min(taken, 0.75) * kMemoryUnits));
  return static_cast<std::uint16_t>(pressure_of_waiting(price) + kSmSlots * units);
}

std::uint16_t pressure_of_waiting(const cost::CollectivePrice& price) {
  return static_cast<std::uint16_t>(std::min(price.sms, kMaxSmsOfKernel));
}

program::Slowdown slowdown_of(const hardware::Device& device, int kind,
                              const cost::Overlap& overlap) {
  program::Slowdown out;
  out.step = 1;
  const int sms = std::max(device.sms, 1);
  const int most = std::min(64, sms / 2);  // NCCL's MAXCHANNELS; never more than half of the device
  const double w = static_cast<double>(kind) / kMemoryBound;
  std::vector<double> arithmetic;  // by SMs held; from `most` on they are as slow
  for (int held = 0; held <= most; ++held) {
    const double share = static_cast<double>(held) / sms;
    arithmetic.push_back((1 - w) / std::max(kMinSpeed, 1 - overlap.arithmetic * share));
  }
  out.speed.reserve(kSmSlots * (kMaxUnits + 1));
  for (int units = 0; units <= kMaxUnits; ++units) {
    const double taken = static_cast<double>(units) / kMemoryUnits;
    const double memory = w / std::max(kMinSpeed, 1 - overlap.memory * taken);
    for (const double busy : arithmetic) {
      out.speed.push_back(std::lround(1e6 / (busy + memory)));
    }
    out.speed.resize(static_cast<std::size_t>(kSmSlots) * static_cast<std::size_t>(units + 1),
                     out.speed.back());
  }
  return out;
}

}  // namespace stepcast::lower
