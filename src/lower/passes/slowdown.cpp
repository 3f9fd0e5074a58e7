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

// A kernel's time, of which its kind says how much arithmetic bounds and how much memory does, in
// parts of its time alone.
class Parts {
 public:
  Parts(const hardware::Device& device, int kind, const cost::Overlap& overlap)
      : overlap_(overlap),
        sms_(std::max(device.sms, 1)),
        by_memory_(static_cast<double>(kind) / kMemoryBound) {}

  // NCCL's MAXCHANNELS; never more than half of the device.
  int most_sms() const { return std::min(64, sms_ / 2); }
  double arithmetic(int held) const {
    const double share = static_cast<double>(held) / sms_;
    return (1 - by_memory_) / std::max(kMinSpeed, 1 - overlap_.arithmetic * share);
  }
  double memory(int units) const {
    const double taken = static_cast<double>(units) / kMemoryUnits;
    return by_memory_ / std::max(kMinSpeed, 1 - overlap_.memory * taken);
  }

 private:
  const cost::Overlap& overlap_;
  int sms_;
  double by_memory_;
};

std::int64_t speed_of(double arithmetic, double memory) {
  return std::lround(1e6 / (arithmetic + memory));
}

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
  const Parts parts(device, kind, overlap);
  std::vector<double> arithmetic;  // by SMs held; from the most on they are as slow
  for (int held = 0; held <= parts.most_sms(); ++held) {
    arithmetic.push_back(parts.arithmetic(held));
  }
  out.speed.reserve(kSmSlots * (kMaxUnits + 1));
  for (int units = 0; units <= kMaxUnits; ++units) {
    const double memory = parts.memory(units);
    for (const double busy : arithmetic) {
      out.speed.push_back(speed_of(busy, memory));
    }
    out.speed.resize(static_cast<std::size_t>(kSmSlots) * static_cast<std::size_t>(units + 1),
                     out.speed.back());
  }
  return out;
}

std::int64_t speed_beside(const hardware::Device& device, int kind, const cost::Overlap& overlap,
                          std::uint16_t pressure) {
  const Parts parts(device, kind, overlap);
  return speed_of(parts.arithmetic(std::min(pressure % kSmSlots, parts.most_sms())),
                  parts.memory(std::min(pressure / kSmSlots, kMaxUnits)));
}

}  // namespace stepcast::lower
