#include "stepcast/lower/offload_times.h"

#include <algorithm>
#include <cmath>

#include "../offload/host_prices.h"
#include "../state/optimizer_states.h"

namespace stepcast::lower {

namespace {

constexpr double kPicosecondsPerSecond = 1e12;

// Picoseconds a byte of large copies.
double slope(const cost::Kernels& kernels, cost::CopyDirection direction, bool pinned) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 40;
  const auto of = [&](std::int64_t bytes) {
    return static_cast<double>(kernels.copy(direction, pinned, Bytes(bytes)).time.count());
  };
  return (of(kLarge) - of(1)) / static_cast<double>(kLarge);
}

// A byte one way also takes so much of the other way's capacity: both are full when it has come
// back.
double round_trip_of(const cost::Kernels& kernels, bool pinned) {
  const double down = slope(kernels, cost::CopyDirection::host_to_device, pinned);
  const double up = slope(kernels, cost::CopyDirection::device_to_host, pinned);
  const double each = 1 / slope(kernels, cost::CopyDirection::both, pinned);
  const double other = std::max(0.0, (1 / down + 1 / up) / 2 / each - 1);
  return std::max(down, up) * (1 + other);
}

}  // namespace

OffloadTimes::OffloadTimes(const strategy::Plan& plan, const Prices& prices) {
  const strategy::Offload& o = plan.offload;
  const hardware::Node& node = plan.cluster.node;
  const double bandwidth = node.host_memory_bandwidth.count();
  if (!o.any() || bandwidth <= 0) {
    return;
  }
  if (o.activations.to != OffloadTarget::none) {
    for (const auto& [name, kernels] : prices.kernels) {
      const double here = round_trip_of(*kernels, o.pinned);
      round_trip = round_trip == 0 ? here : std::min(round_trip, here);
    }
    const double through = o.pinned ? 1 : 3;  // pageable memory is staged
    round_trip_shared = 2 * through * kPicosecondsPerSecond / (bandwidth * kDramShare);
  }
  const strategy::Precision& types = plan.precision;
  const strategy::OptimizerStep& optimizer = plan.optimizer_step;
  const bool adam = optimizer.kind == Optimizer::adamw;
  const bool trains_all = plan.style.finetune.kind == FinetuneKind::none;
  if (o.optimizer.to != OffloadTarget::none && adam && trains_all) {
    const double wide = bytes_per_element(types.parameters);
    const double master = types.master ? bytes_per_element(*types.master) : 0;
    const double touched = bytes_per_element(types.gradients) +
                           2 * moment_bytes(optimizer.kind, optimizer.momentum, types.moments) +
                           (master > 0 ? master : wide) + master + wide;
    const double bytes = o.optimizer.ratio * touched * (optimizer.fused ? 1 : kUnfusedCpuAdam);
    step_shared = bytes * kPicosecondsPerSecond / (bandwidth * kCpuAdamShare);
    const double cores = kCoreBandwidth * node.cpu_cores / node.gpus;
    step = cores > 0 ? std::max(step_shared, bytes * kPicosecondsPerSecond / cores) : step_shared;
  }
}

Time OffloadTimes::out_and_back(double bytes, int ranks) const {
  return Time(static_cast<std::int64_t>(bytes * std::max(round_trip, round_trip_shared * ranks)));
}

Time OffloadTimes::host_step(double elements, int ranks) const {
  return Time(static_cast<std::int64_t>(elements * std::max(step, step_shared * ranks)));
}

}  // namespace stepcast::lower
