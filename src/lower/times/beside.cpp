#include "beside.h"

#include <algorithm>

#include "stepcast/base/checked_time.h"

namespace stepcast::lower {
namespace {

constexpr std::int64_t kWhole = 1'000'000;  // parts per million

}  // namespace

Time share_of(Time time, std::int64_t ppm) {
  return Time{static_cast<std::int64_t>(static_cast<double>(time.count()) *
                                        static_cast<double>(ppm) / kWhole)};
}

std::int64_t least_loss(const hardware::Device& device, const cost::Overlap& overlap,
                        std::uint32_t kinds, std::uint16_t pressure) {
  std::int64_t fastest = 0;
  for (int kind = 0; kind < kKernelKinds; ++kind) {
    if ((kinds >> kind & 1U) != 0) {
      fastest = std::max(fastest, speed_beside(device, kind, overlap, pressure));
    }
  }
  return std::max<std::int64_t>(0, kWhole - fastest);
}

void Slowed::launched(Role stream, const cost::CollectivePrice& price) {
  Window& w = windows_[stream];
  if (!w.open) {
    w = {};
    w.open = true;
    w.opened = ++events_;
  }
  w.moved.emplace_back(checked_sum(price.latency, price.fluid),
                       pressure_of(price, device_.memory_bandwidth));
}

void Slowed::ran(int kind) {
  for (Window& w : windows_) {
    w.kinds |= 1U << kind;
    ++w.kernels;
  }
}

void Slowed::idle(Time time) {
  for (Window& w : windows_) {
    w.idle = w.open ? checked_sum(w.idle, time) : w.idle;
  }
}

Time Slowed::lost(Role stream) {
  Window& w = windows_[stream];
  if (!w.open) {
    return Time{0};
  }
  w.open = false;
  if (w.kernels == 0 || w.opened <= counted_) {
    return Time{0};
  }
  Time lost{0};
  std::int64_t most = 0;
  for (const auto& [time, pressure] : w.moved) {
    const std::int64_t share = least_loss(device_, overlap_, w.kinds, pressure);
    most = std::max(most, share);
    lost = checked_sum(lost, share_of(time, share));
  }
  // Idle time may lie beside what slows most; kernels end up to a picosecond early each.
  lost -= share_of(w.idle, most) + Time{w.kernels + 1};
  if (lost <= Time{0}) {
    return Time{0};
  }
  counted_ = ++events_;
  return lost;
}

}  // namespace stepcast::lower
