// The bound of one candidate with its schedule played.
#include <algorithm>

#include "held.h"
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

lower::StateBytes Bound::State::states_of(const strategy::StateSharing& sharing,
                                          const std::vector<Pass>& passes) const {
  std::int64_t parameters = 0;
  std::int64_t experts = 0;
  for (const Pass& of : passes) {
    parameters += of.parameters;
    experts += of.expert_parameters;
  }
  return states(sharing, parameters, experts);
}

Bytes Bound::State::most_memory(const Candidate& c, const strategy::Plan& plan,
                                const StatedOffload& away,
                                const std::vector<std::vector<Pass>>& passes) const {
  const strategy::StateSharing sharing = jobs.sharing(c);
  const lower::WholeUnits whole = lower::whole_units(plan);
  std::int64_t most = 0;
  for (std::size_t rank = 0; rank < passes.size(); ++rank) {
    std::vector<Pass> kept = passes[rank];
    for (Pass& of : kept) {
      of.kept = away.activations.to == OffloadTarget::none ? of.kept : 0;
    }
    const std::int64_t beside = most_held(plan, static_cast<int>(rank), kept, whole);
    most = std::max(most, left(states_of(sharing, passes[rank]), away) + beside);
  }
  Bytes outside = lower::least_outside(plan, *devices.front());
  for (const hardware::Device* device : devices) {
    outside = std::min(outside, lower::least_outside(plan, *device));
  }
  return Bytes(most) + outside;
}

Refined Bound::refine(const Candidate& c) {
  Refined out;
  const Result least = evaluate(c);
  out.step = least.step;
  out.memory = least.memory;
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
  if (placed.pairs) {  // how long each pass of a pair takes is not known
    return out;
  }
  const lower::UnitTimes& units = s.units[s.units_id(c, plan.micro_batches)];
  const StatedOffload& offload = c.offload != nullptr ? *c.offload : s.jobs.offload();
  const Away away(plan, offload, offload.any() ? &s.times_of(offload) : nullptr,
                  s.alike(plan.grid.tensor, plan.grid.context, plan.grid.data, plan.grid.pipeline));
  std::vector<std::vector<Pass>> passes;
  std::vector<Time> steps;
  const strategy::StateSharing sharing = s.jobs.sharing(c);
  for (const auto& chunks : plan.stages) {
    passes.emplace_back();
    for (const strategy::Chunk& chunk : chunks) {
      Pass of;
      static_cast<ChunkCost&>(of) = s.chunk_cost(units, placed, chunk, c.recompute);
      of.copies = away.copies(of);
      of.given_up = of.last_kept;
      if (chunk.head && !placed.splits_vocabulary) {
        of.last_is_layer = false;
        of.given_up += units.head.kept;
        of.kept += units.head.kept;
        of.last_forward = units.head.forward_temporaries;
        of.last_backward = units.head.backward_temporaries;
      }
      passes.back().push_back(of);
    }
    steps.push_back(away.step(passes.back()));
    const strategy::OptimizerStep& step = plan.optimizer_step;
    if (!offload.any() && !step.in_backward && steps_behind_all(step, plan.grid.pipeline)) {
      steps.back() = s.least_step(step, s.states_of(sharing, passes.back()));
    }
  }
  const auto messages = lower::stage_messages(plan, s.topology, s.prices);
  if (travels_alike(offload)) {
    plan.offload = {};
    out.memory = std::max(out.memory, s.most_memory(c, plan, offload, passes));
  }
  const lower::DataTimes data(plan, s.topology, s.prices, s.shapes);
  const auto travels = s.travels(units, data);
  for (std::size_t rank = 0; rank < passes.size(); ++rank) {
    for (std::size_t n = 0; n < passes[rank].size(); ++n) {
      s.add_travel(travels, plan.stages[rank][n], passes[rank][n]);
    }
  }
  out.step = std::max(out.step, play(plan, passes, messages, data, steps));
  return out;
}

}  // namespace stepcast::bound
