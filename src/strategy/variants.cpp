#include "stepcast/strategy/variants.h"

#include <algorithm>
#include <numeric>

#include "rules.h"

namespace stepcast::strategy {
namespace {

DataComm comm_of(const Candidate& c) {
  return c.data * c.context == 1         ? DataComm::none
         : c.sharding == Sharding::zero1 ? DataComm::shard_states
         : c.sharding == Sharding::zero2 ? DataComm::shard_grads
         : c.sharding == Sharding::zero3 ? DataComm::shard_all
                                         : DataComm::all_reduce;
}

Candidate candidate_of(const job::Job& job) {
  const auto& par = job.parallelism;
  Candidate out;
  out.tensor = par.tensor;
  out.pipeline = par.pipeline;
  out.virtual_pipeline = par.virtual_pipeline;
  out.data = par.data.value_or(1);
  out.micro_batch = job.workload.micro_batch;
  out.sequence_parallel = par.sequence_parallel;
  out.sharding = par.sharding;
  out.recompute = job.memory.recompute;
  out.context = par.context;
  out.expert_tensor = par.expert_tensor;
  out.tensor_overlap = par.overlap.tensor;
  out.grad_reduce = par.overlap.grad_reduce;
  out.param_gather = par.overlap.param_gather;
  out.pipeline_overlap = par.overlap.pipeline;
  return out;
}

// What units' kernels depend on.
job::Job sized(const job::Job& base, const Candidate& c) {
  job::Job job = base;
  auto& par = job.parallelism;
  par.tensor = c.tensor;
  par.pipeline = c.pipeline;
  par.context = c.context;
  par.sequence_parallel = c.sequence_parallel;
  par.sharding = c.sharding;
  par.overlap.tensor = c.tensor_overlap;
  job.workload.micro_batch = c.micro_batch;
  job.memory.recompute = c.recompute;
  return job;
}

job::Job without_experts(job::Job job) {
  job.model.moe.reset();
  return job;
}

}  // namespace

Candidate candidate_of(const Plan& plan) {
  Candidate out;
  out.tensor = plan.grid.tensor;
  out.pipeline = plan.grid.pipeline;
  out.virtual_pipeline = static_cast<int>(plan.stages.front().size());
  out.data = plan.grid.data;
  out.micro_batch = plan.micro_batch;
  out.sequence_parallel = plan.shard.sequence_parallel;
  out.sharding = plan.sharding;
  const Recompute& recompute = plan.recompute;
  if (recompute.blocks) {
    out.recompute = {RecomputeKind::full, recompute.layers};
  } else {
    out.recompute = {recompute.kind,   recompute.layers, recompute.modules,
                     recompute.policy, recompute.share,  recompute.budget};
  }
  out.context = plan.grid.context;
  out.expert_tensor = plan.shard.expert_tensor;
  out.tensor_overlap = plan.tensor_parallel.overlap;
  out.grad_reduce = plan.gradient_sync.overlap_stated;
  out.param_gather = plan.parameter_gather.overlap_stated;
  out.pipeline_overlap = plan.stage_transport.overlaps;
  return out;
}

namespace {
DataComm comm_of(Sharding sharding) {
  return sharding == Sharding::zero2   ? DataComm::shard_grads
         : sharding == Sharding::zero3 ? DataComm::shard_all
                                       : DataComm::none;
}
}  // namespace

Variants::Variants(const job::Job& base)
    : base_(base),
      base_plan_(sizes(candidate_of(base), comm_of(base.parallelism.sharding), false)) {}

Plan Variants::base(const StateSharing& sharing) const {
  Candidate c = candidate_of(base_);
  c.sharding = sharing.stated;
  c.pipeline = sharing.stages ? std::max(2, c.pipeline) : 1;
  return sizes(c, sharing.comm, false);
}

DataComm Variants::unit_comm(const Candidate& c) const {
  const StatedOffload& away = c.offload != nullptr ? *c.offload : base_.memory.offload;
  const bool leaves = away.parameters.to != job::OffloadTarget::none ||
                      away.gradients.to != job::OffloadTarget::none;
  const std::int64_t ranks = std::int64_t{c.data} * c.context;
  return ranks > 1 || leaves || wraps_alone(base_, c.sharding, ranks) ? comm_of(c.sharding)
                                                                      : DataComm::none;
}

bool Variants::accumulates_whole(const Candidate& c) const {
  return strategy::accumulates_whole(base_, unit_comm(c), c.pipeline);
}

std::int64_t Variants::most_micro_batches(const Candidate& c) const {
  const std::int64_t per_step = c.micro_batch * c.data;
  const auto& cluster = base_.cluster;
  const auto& model = base_.model;
  const int expert = base_.parallelism.expert;
  if (per_step <= 0 || c.tensor * c.context * c.pipeline * c.data != cluster.ranks() ||
      model.heads % c.tensor != 0 ||
      (!model.mla && model.kv_heads % c.tensor != 0 && !shares_key_heads(base_, c.tensor))) {
    return 0;
  }
  const bool grid_of_tensor =
      c.tensor > 1 && base_.parallelism.tensor_kind != job::TensorKind::one_d;
  if (grid_of_tensor && !forms_tensor_grid(sized(base_, c))) {  // a copy that no other job pays for
    return 0;
  }
  if (model.moe && c.tensor * c.context * c.data % (expert * c.expert_tensor_ranks()) != 0) {
    return 0;
  }
  if (base_.workload.micro_batches.kind == job::MicroBatches::Kind::even) {
    const std::int64_t batch = base_.workload.global_batch;
    return batch % per_step == 0 ? batch / per_step : 0;
  }
  const cluster::Grid grid{c.tensor, c.context, c.data, c.pipeline, expert, cluster.order};
  job::Workload workload = base_.workload;
  workload.micro_batch = c.micro_batch;
  const auto each = micro_batches_of(workload, cluster, grid);
  const auto* found = std::get_if<std::vector<int>>(&each);
  return found == nullptr ? 0 : *std::max_element(found->begin(), found->end());
}

StateSharing Variants::sharing(const Candidate& c) const {
  const int ranks = c.data * c.context;
  const int expert_ranks = base_.model.moe ? base_.parallelism.expert * c.expert_tensor_ranks() : 1;
  StateSharing out;
  out.stated = c.sharding;
  out.stages = c.pipeline > 1;
  out.comm = comm_of(c);
  out.shards = c.sharding == Sharding::none ? 1 : base_.parallelism.shard_size.value_or(ranks);
  const int expert_data = c.tensor * ranks / std::max(1, expert_ranks);
  out.expert_shards =
      expert_shards(expert_data, out.shards,
                    base_.model.moe && c.sharding != Sharding::none && out.shards == ranks);
  return out;
}

Placed Variants::place(const Candidate& c) const {
  job::Job job = base_;
  job.parallelism.pipeline = c.pipeline;
  job.parallelism.virtual_pipeline = c.virtual_pipeline;
  Placed out;
  if (c.pipeline == 1 && c.virtual_pipeline > 1) {
    return out;  // no job: chunks belong to a pipeline
  }
  out.chunks = c.virtual_pipeline;
  schedule::Placement placement = schedule::Placement::loop;
  const auto& stated = job.parallelism.schedule;
  if (const schedule::Entry* entry = schedule_of(job)) {
    if (c.pipeline > 1) {
      placement = entry->placement;
      out.chunks = entry->chunks > 0 ? entry->chunks : c.virtual_pipeline;
    }
    out.pairs = (c.pipeline > 1 && entry->has_pairs) || pairs_passes(job);
    out.splits_vocabulary = (stated && !stated->vocabulary.empty()) || entry->splits_vocabulary;
    out.ramps = entry->placement == schedule::Placement::loop && !entry->splits_backward &&
                !out.splits_vocabulary && !base_.system.optimizer_post_validation;
  } else if (stated && c.pipeline > 1) {
    const auto order = schedule::from_csv(stated->table);
    if (const auto* table = std::get_if<schedule::Order>(&order)) {
      placement = table->placement;
      out.chunks = table->chunks;
    }
  }
  out.bidirectional = placement == schedule::Placement::bidirectional;
  auto stages = place_layers(job, placement, out.chunks);
  if (auto* made = std::get_if<std::vector<std::vector<Chunk>>>(&stages)) {
    out.stages = std::move(*made);
  }
  return out;
}

Plan Variants::sizes(const Candidate& c, DataComm comm, bool with_routing) const {
  job::Job job = sized(base_, c);
  Plan plan;
  plan.data_comm = comm;
  plan.grid = grid_of(c);
  job.parallelism.expert_tensor = base_.model.moe ? c.expert_tensor_ranks() : 1;
  plan.shard = shard_of(job);
  plan.style = model::style_of(with_routing ? job : without_experts(job));
  plan.vocab = padded_vocab(base_, c.tensor);
  job.model.vocab = plan.vocab;
  set_policies(job, plan);
  return plan;
}

cluster::Grid Variants::grid_of(const Candidate& c) const {
  return {c.tensor, c.context, c.data, c.pipeline, base_.parallelism.expert, base_.cluster.order};
}

bool Variants::same_job(const Variants& other, const Candidate& c) const {
  const auto& ours = base_.parallelism.schedule;
  const auto& its = other.base_.parallelism.schedule;
  // What place() and place_and_order() read of the schedule of one stage.
  const auto idle = [](const Variants& of, const std::optional<job::Schedule>& schedule) {
    return !of.base_.system.schedules_one_stage && schedule_of(of.base_) != nullptr &&
           (!schedule || (schedule->vocabulary.empty() && schedule->extra_warmup == 0));
  };
  return cluster::same_places(grid_of(c), other.grid_of(c)) &&
         (ours == its || (c.pipeline == 1 && idle(*this, ours) && idle(other, its)));
}

Plan Variants::layout(const Candidate& c, std::int64_t micro_batches) const {
  Plan plan = sizes(c, unit_comm(c), true);
  plan.micro_batches = static_cast<int>(micro_batches);
  return plan;
}

std::variant<Plan, Infeasible> Variants::resolve(const Candidate& c) const {
  job::Job job = sized(base_, c);
  auto& par = job.parallelism;
  par.virtual_pipeline = c.virtual_pipeline;
  par.data = c.data > 0 ? std::optional(c.data) : std::nullopt;
  par.expert_tensor = c.expert_tensor_ranks();
  par.overlap.grad_reduce = c.grad_reduce;
  par.overlap.param_gather = c.param_gather;
  par.overlap.pipeline = c.pipeline_overlap;
  if (c.offload != nullptr) {
    job.memory.offload = *c.offload;
  }
  return strategy::resolve(job);
}

}  // namespace stepcast::strategy
