// What gathers and reductions of whole units, and the optimizer's step, take on the device.
#include <algorithm>

#include "state.h"

namespace stepcast::bound {

// A rank's step on its device: every byte of the optimizer's states is read and written, and kept
// gradients are set to zero.
Time Bound::State::least_step(const strategy::OptimizerStep& step,
                              const lower::StateBytes& states) const {
  const auto on = [&](const hardware::Device& device) {
    const cost::Kernels& kernels = *prices.kernels.at(device.name);
    const auto takes = [&](cost::MemoryOp op, std::int64_t bytes) {
      return bytes > 0 ? kernels.memory(op, Bytes(bytes)).time : Time(0);
    };
    return takes(cost::MemoryOp::optimizer, 2 * states.optimizer) +
           takes(cost::MemoryOp::copy, step.zeroes_gradients ? states.gradients : 0);
  };
  Time least = on(*devices.front());
  for (const hardware::Device* device : devices) {
    least = std::min(least, on(*device));
  }
  return least;
}

// What gathers and reductions of each kind of layer cost, one by one.
std::vector<Bound::State::Travel> Bound::State::travels(const lower::UnitTimes& of,
                                                        const lower::DataTimes& data) const {
  using OnCompute = lower::DataTimes::OnCompute;
  std::vector<Travel> out;
  for (const auto& kind : of.layers) {
    const lower::UnitTime& unit = kind.second;
    const auto least_of = [&](auto cost_on) {
      const auto on = [&](const hardware::Device* device) {
        return (data.*cost_on)(unit.parameters, unit.expert_parameters, *device);
      };
      OnCompute least = on(devices.front());
      for (const hardware::Device* device : devices) {
        const OnCompute cost = on(device);
        least.copied = std::min(least.copied, cost.copied);
        least.lost = std::min(least.lost, cost.lost);
      }
      return least;
    };
    out.push_back({least_of(&lower::DataTimes::gathering), least_of(&lower::DataTimes::reducing)});
  }
  return out;
}

void Bound::State::add_travel(const std::vector<Travel>& by_kind, const strategy::Chunk& chunk,
                              Pass& of) const {
  const auto add = [](OneByOne& all, const lower::DataTimes::OnCompute& one) {
    all.copied += one.copied;
    all.lost += one.lost;
    all.moved += one.moved;
    all.lost_to_one = std::max(all.lost_to_one, one.lost);
  };
  for (int layer = chunk.first_layer; layer < chunk.first_layer + chunk.layers; ++layer) {
    const Travel& travel = by_kind[static_cast<std::size_t>(kind_of[layer])];
    add(of.gathered, travel.gathering);
    if (!base().parameter_gather.keeps_last_layer || layer + 1 != base().model.layers) {
      add(of.gathered_again, travel.gathering);
    }
    add(of.reduced, travel.reducing);
  }
}

}  // namespace stepcast::bound
