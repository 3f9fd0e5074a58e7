// The bound of one candidate with its schedule played.
#include <algorithm>

#include "play.h"
#include "state.h"

namespace stepcast::bound {
namespace {

// Times of what is offloaded, for the played schedule.
class Away {
 public:
  // `times`: nullptr: nothing is. `alike`: ranks of a node that run one stage.
  Away(const strategy::Plan& plan, const StatedOffload& offload, const lower::OffloadTimes* times,
       int alike)
      : plan_(plan), offload_(offload), times_(times), alike_(alike) {}

  // Of one micro-batch's saved activations.
  Time copies(const ChunkCost& cost) const {
    if (times_ == nullptr) {
      return Time(0);
    }
    const double bytes =
        travelling(plan_.offload.activation_form, offload_, cost.kept, cost.largest);
    return times_->out_and_back(bytes, alike_);
  }
  // Of a rank's optimizer on the CPUs.
  Time step(const std::vector<Pass>& passes) const {
    if (times_ == nullptr || offload_.optimizer.to == OffloadTarget::none ||
        !steps_behind_all(plan_.optimizer_step, plan_.grid.pipeline)) {
      return Time(0);
    }
    double elements = 0;
    for (const Pass& p : passes) {
      elements += static_cast<double>(p.parameters) / plan_.shard_ranks +
                  static_cast<double>(p.expert_parameters) / strategy::expert_shards(plan_);
    }
    return times_->host_step(offload_.optimizer.ratio * elements, alike_);
  }

 private:
  const strategy::Plan& plan_;
  const StatedOffload& offload_;
  const lower::OffloadTimes* times_;
  int alike_;
};

// Offloading leaves data parallelism's traffic as it is: parameters stay on the device in their own
// arrays. What travels to the host can only delay that traffic.
bool travels_alike(const StatedOffload& o) {
  return o.parameters.to == OffloadTarget::none && o.page.count() == 0 && o.chunk.count() == 0 &&
         o.tiling == 1;
}

}  // namespace

Refined Bound::refine(const Candidate& c) {
  Refined out;
  const Result least = evaluate(c);
  out.step = least.step;
  State& s = *state_;
  auto resolved = s.jobs.resolve(c);
  if (auto* why = std::get_if<Infeasible>(&resolved)) {
    out.refused = std::move(*why);
    return out;
  }
  auto& plan = std::get<strategy::Plan>(resolved);
  if (!least.feasible || !can_play(plan)) {
    return out;
  }
  const Placed& placed = s.placed[s.placed_id(c)];
  const lower::UnitTimes& units = s.units[s.units_id(c, plan.micro_batches)];
  const StatedOffload& offload = c.offload != nullptr ? *c.offload : s.jobs.offload();
  const Away away(plan, offload, offload.any() ? &s.times_of(offload) : nullptr,
                  s.alike(plan.grid.tensor, plan.grid.context, plan.grid.data));
  std::vector<std::vector<Pass>> passes;
  std::vector<Time> steps;
  for (const auto& chunks : plan.stages) {
    passes.emplace_back();
    for (const strategy::Chunk& chunk : chunks) {
      const ChunkCost cost = s.chunk_cost(units, placed, chunk, c.recompute);
      passes.back().push_back({cost.forward, cost.backward, cost.weight_grad, cost.parameters,
                               cost.expert_parameters, cost.layer_parameters,
                               cost.expert_parameters, away.copies(cost)});
    }
    steps.push_back(away.step(passes.back()));
  }
  const auto messages = lower::stage_messages(plan, s.topology, s.prices);
  if (travels_alike(offload)) {
    plan.offload = {};
  }
  const lower::DataTimes data(plan, s.topology, s.prices, s.shapes);
  out.step = std::max(out.step, play(plan, passes, messages, data, steps));
  return out;
}

}  // namespace stepcast::bound
