// The bound of one candidate with its schedule played.
#include <algorithm>

#include "play.h"
#include "state.h"

namespace stepcast::bound {
namespace {

job::Job job_of(const job::Job& base, const Candidate& c, int expert_tensor) {
  job::Job job = base;
  auto& p = job.parallelism;
  p.tensor = c.tensor;
  p.pipeline = c.pipeline;
  p.virtual_pipeline = c.virtual_pipeline;
  p.data = c.data > 0 ? std::optional(c.data) : std::nullopt;
  p.context = c.context;
  p.sequence_parallel = c.sequence_parallel;
  p.sharding = c.sharding;
  p.expert_tensor = expert_tensor;
  p.overlap.tensor = c.tensor_overlap;
  p.overlap.grad_reduce = c.grad_reduce;
  p.overlap.param_gather = c.param_gather;
  p.overlap.pipeline = c.pipeline_overlap;
  job.workload.micro_batch = c.micro_batch;
  job.memory.recompute = c.recompute;
  if (c.offload != nullptr) {
    job.memory.offload = *c.offload;
  }
  return job;
}

}  // namespace

Refined Bound::refine(const Candidate& c) {
  Refined out;
  const Result least = evaluate(c);
  out.step = least.step;
  State& s = *state_;
  auto resolved = strategy::resolve(job_of(s.base, c, s.expert_tensor(c)));
  if (auto* why = std::get_if<Infeasible>(&resolved)) {
    out.refused = std::move(*why);
    return out;
  }
  const auto& plan = std::get<strategy::Plan>(resolved);
  if (!least.feasible || !can_play(plan)) {
    return out;
  }
  const Placed& placed = s.placed[s.placed_id(c)];
  const lower::UnitTimes& units = s.units[s.units_id(c, plan.micro_batches)];
  std::vector<std::vector<Pass>> passes;
  for (const auto& chunks : plan.stages) {
    passes.emplace_back();
    for (const strategy::Chunk& chunk : chunks) {
      const ChunkCost cost = s.chunk_cost(units, placed, chunk, c.recompute);
      passes.back().push_back({cost.forward, cost.backward, cost.weight_grad, cost.parameters,
                               cost.expert_parameters, cost.layer_parameters,
                               cost.expert_parameters});
    }
  }
  const auto messages = lower::stage_messages(plan, s.topology, s.prices);
  const lower::DataTimes data(plan, s.topology, s.prices, s.shapes);
  out.step = std::max(out.step, play(plan, passes, messages, data));
  return out;
}

}  // namespace stepcast::bound
