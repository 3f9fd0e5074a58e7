#include "slowdown.h"

#include <algorithm>
#include <cmath>

namespace stepcast::lower {
namespace {

constexpr int kMemoryUnits = 32;  // of the whole bandwidth
constexpr int kHeld = 256;        // SMs below one memory unit
constexpr int kMostHeld = 63;     // by one kernel: four of them never reach a memory unit
constexpr int kMostUnits = kMemoryUnits * 3 / 4;  // communication never takes all of the memory

}  // namespace

std::uint16_t pressure_of(const cost::CollectivePrice& price, Bandwidth memory) {
  const double time = to_seconds(price.latency + price.fluid);
  const double taken = time > 0 && memory.count() > 0
                           ? static_cast<double>(price.memory.count()) / time / memory.count()
                           : 0;
  const auto units = static_cast<int>(std::lround(std::min(taken, 0.75) * kMemoryUnits));
  return static_cast<std::uint16_t>(std::min(price.sms, kMostHeld) + kHeld * units);
}

program::Slowdown slowdown_of(const job::Device& device, int kind) {
  program::Slowdown out;
  out.step = 1;
  const int sms = std::max(device.sms, 1);
  const int most = std::min(64, sms / 2);  // NCCL's MAXCHANNELS; never more than half of the device
  const double w = static_cast<double>(kind) / kMemoryBound;
  out.speed.reserve(kHeld * (kMostUnits + 1));
  for (int units = 0; units <= kMostUnits; ++units) {
    const double memory = w / (1 - static_cast<double>(units) / kMemoryUnits);
    for (int held = 0; held < kHeld; ++held) {
      const double arithmetic = (1 - w) / (1 - static_cast<double>(std::min(held, most)) / sms);
      out.speed.push_back(std::lround(1e6 / (arithmetic + memory)));
    }
  }
  return out;
}

}  // namespace stepcast::lower
