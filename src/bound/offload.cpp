// What lives outside the GPUs, in the terms of bounds.
#include <algorithm>

#include "state.h"

namespace stepcast::bound {

double travelling(ActivationOffload form, const StatedOffload& offload, std::int64_t kept,
                  std::int64_t largest) {
  if (offload.activations.to == OffloadTarget::none || offload.activation_layers > 0 ||
      !offload.activation_modules.empty() || form == ActivationOffload::pairs) {
    return 0;
  }
  const std::int64_t stays = offload.prefetch * largest;
  return offload.activations.ratio * static_cast<double>(std::max<std::int64_t>(0, kept - stays));
}

bool steps_behind_all(const strategy::OptimizerStep& step, int pipeline) {
  return !(step.post_validated && pipeline > 1);
}

const lower::OffloadTimes& Bound::State::times_of(const StatedOffload& offload) {
  auto& out = offload_times[offload.pinned ? 1 : 0];
  if (!out) {
    strategy::Plan plan = base();
    plan.offload = {};
    plan.offload.pinned = offload.pinned;
    plan.offload.activations.to = plan.offload.optimizer.to = OffloadTarget::cpu;
    out.emplace(plan, prices);
  }
  return *out;
}

// The optimizer on the CPUs stands between one step's passes and the next one's; activations take
// their way out and back between a rank's first pass and its last.
Time Bound::State::moving(const Layout& of, const StatedOffload& away) {
  const lower::OffloadTimes& times = times_of(away);
  Time busy = of.compute;
  for (const Layout::Chain& chain : of.chains) {
    const double bytes =
        travelling(base().offload.activation_form, away, chain.kept, chain.largest);
    busy = std::max(busy, chain.ramps + times.out_and_back(bytes, of.alike));
  }
  const bool steps = away.optimizer.to != OffloadTarget::none && of.steps_behind_all;
  return busy +
         (steps ? times.host_step(away.optimizer.ratio * of.least_shard, of.alike) : Time(0));
}

int Bound::State::alike(int tensor, int context, int data, int pipeline) const {
  const std::string& order = base().cluster.order;
  if (!order.starts_with("tp-cp")) {
    return 1;
  }
  const bool stages_last = pipeline == 1 || order.find("dp") < order.find("pp");
  const int block = tensor * context * (stages_last ? data : 1);
  const int gpus = base().cluster.node.gpus;
  return block % gpus == 0 ? gpus : gpus % block == 0 ? block : 1;
}

}  // namespace stepcast::bound
