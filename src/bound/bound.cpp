#include "stepcast/bound/bound.h"

#include <algorithm>
#include <numeric>

#include "state.h"

namespace stepcast::bound {
namespace {

// Of `bytes`, what stays on the device.
std::int64_t left(std::int64_t bytes, const job::OffloadPart& part) {
  const double share = part.to == job::OffloadTarget::none ? 0 : part.ratio;
  return share == 0 ? bytes : static_cast<std::int64_t>(static_cast<double>(bytes) * (1 - share));
}

// The cluster without its faults, every GPU linked as the best-linked one: a collective is priced
// once and stands for groups anywhere.
cluster::Topology best_case(const job::Cluster& given, const cluster::Topology& topology) {
  if (given.faults.empty() && given.overrides.empty()) {
    return topology;
  }
  job::Cluster best = given;
  best.faults.clear();
  best.overrides.clear();
  best.fabric.routing = job::Fabric::Routing::adaptive;  // no draw of hashed routes does better
  for (const auto& o : given.overrides) {
    best.device.nvlink = std::max(best.device.nvlink, o.device.nvlink);
    best.device.pcie = std::max(best.device.pcie, o.device.pcie);
  }
  auto built = cluster::Topology::build(best);
  auto* whole = std::get_if<cluster::Topology>(&built);
  return whole != nullptr ? std::move(*whole) : topology;
}

bool eight_bits(job::DType t) { return job::bytes_per_element(t) <= 1; }

strategy::DataComm comm_of(const Candidate& c) {
  return c.data * c.context == 1              ? strategy::DataComm::none
         : c.sharding == job::Sharding::zero1 ? strategy::DataComm::shard_states
         : c.sharding == job::Sharding::zero2 ? strategy::DataComm::shard_grads
         : c.sharding == job::Sharding::zero3 ? strategy::DataComm::shard_all
                                              : strategy::DataComm::all_reduce;
}

// Chunks of activations that a rank holds at least at once under 1F1B; GPipe and wider groups hold
// more.
std::int64_t in_flight(const Sums& sums, int pipeline, int rank, std::int64_t micro_batches) {
  if (!sums.ramps) {
    return 1;
  }
  return sums.chunks == 1
             ? std::min<std::int64_t>(micro_batches, pipeline - rank)
             : std::min<std::int64_t>(micro_batches * sums.chunks,
                                      2 * (pipeline - rank - 1) + (sums.chunks - 1) * pipeline + 1);
}

// Of any data-parallel rank: it lasts at least as long as those micro-batches would on the fastest
// devices. 0: they do not add up to the batch.
std::int64_t most_micro_batches(const job::Job& job, const Candidate& c) {
  const std::int64_t per_step = c.micro_batch * c.data;
  if (per_step <= 0) {
    return 0;
  }
  if (job.workload.micro_batches.kind == job::MicroBatches::Kind::even) {
    const std::int64_t batch = job.workload.global_batch;
    return batch % per_step == 0 ? batch / per_step : 0;
  }
  const cluster::Grid grid{c.tensor,         c.context, c.data, c.pipeline, job.parallelism.expert,
                           job.cluster.order};
  if (grid.ranks() != job.cluster.ranks()) {
    return 0;
  }
  job::Workload workload = job.workload;
  workload.micro_batch = c.micro_batch;
  const auto each = strategy::micro_batches_of(workload, job.cluster, grid);
  const auto* found = std::get_if<std::vector<int>>(&each);
  return found == nullptr ? 0 : *std::max_element(found->begin(), found->end());
}

}  // namespace

Bound::Bound(const job::Job& base, const cluster::Topology& topology, const lower::Prices& prices)
    : state_(std::make_unique<State>(base, best_case(base.cluster, topology), prices)) {
  state_->low_precision = eight_bits(base.workload.precision);
  // As lower/passes.cpp decides it.
  state_->adds_in_products =
      base.system.gradient_accumulation_fusion &&
      (base.memory.dtypes.gradients == job::DType::fp32 || base.system.transformer_engine);
  const job::Cluster& cluster = state_->base.cluster;
  state_->devices.push_back(&cluster.device);
  for (const auto& o : cluster.overrides) {
    state_->devices.push_back(&o.device);
  }
  // Ranks of a group lie next to each other where nothing else is nearer.
  const std::string& order = base.cluster.order;
  const bool near = order.starts_with("tp-cp");
  const bool stages_first = order.find("pp") < order.find("dp");
  state_->groups_by_data = !near;
  state_->groups_by_pipeline = !near || (base.model.moe && stages_first);
  const auto kinds = model::layer_kinds(base.model);
  for (int layer = 0; layer < model::layer_count(base.model); ++layer) {
    const auto at = std::find(kinds.begin(), kinds.end(), model::layer_kind(base.model, layer));
    state_->kind_of.push_back(static_cast<int>(at - kinds.begin()));
  }
}
Bound::~Bound() = default;
Bound::Bound(Bound&&) noexcept = default;

Candidate candidate_of(const strategy::Plan& plan) {
  const auto& par = plan.job.parallelism;
  Candidate out;
  out.tensor = par.tensor;
  out.pipeline = par.pipeline;
  out.virtual_pipeline = static_cast<int>(plan.stages.front().size());
  out.data = plan.grid.data;
  out.micro_batch = plan.job.workload.micro_batch;
  out.sequence_parallel = plan.shard.sequence_parallel;
  out.sharding = par.sharding;
  out.recompute = plan.job.memory.recompute;
  out.context = par.context;
  out.expert_tensor = plan.shard.expert_tensor;
  out.tensor_overlap = par.overlap.tensor;
  out.grad_reduce = par.overlap.grad_reduce;
  out.param_gather = par.overlap.param_gather;
  out.pipeline_overlap = par.overlap.pipeline;
  return out;
}

const Bound::Layout* Bound::layout(const Candidate& c) {
  State& s = *state_;
  const job::Job& job = s.base;
  const std::int64_t micro_batches = most_micro_batches(job, c);
  if (micro_batches <= 0 || c.tensor * c.context * c.pipeline * c.data != job.cluster.ranks() ||
      job.model.heads % c.tensor != 0 || (!job.model.mla && job.model.kv_heads % c.tensor != 0)) {
    return nullptr;
  }
  if (job.model.moe &&
      c.tensor * c.context * c.data % (job.parallelism.expert * s.expert_tensor(c)) != 0) {
    return nullptr;
  }
  const std::uint32_t place = s.placed_id(c);
  if (s.placed[place].stages.empty()) {
    return nullptr;
  }
  const std::uint32_t units = s.units_id(c, micro_batches);
  const Sums& sums = s.sums_of(units, place, c.recompute);

  const int ranks = c.data * c.context;
  const strategy::DataComm comm = comm_of(c);
  const int shards =
      c.sharding == job::Sharding::none ? 1 : job.parallelism.shard_size.value_or(ranks);
  const int expert_ranks = job.model.moe ? job.parallelism.expert * s.expert_tensor(c) : 1;
  const int expert_shards = std::gcd(c.tensor * ranks / std::max(1, expert_ranks), shards);
  Layout& out = s.layout;
  out.ranks.clear();
  out.chains.clear();
  out.compute = out.reduce = Time(0);
  for (const RankSum& r : sums.memory) {
    lower::StateBytes states = lower::state_bytes(job, comm, shards, r.parameters);
    if (r.expert_parameters > 0) {
      const auto more = lower::state_bytes(job, comm, expert_shards, r.expert_parameters);
      states.parameters += more.parameters;
      states.gradients += more.gradients;
      states.optimizer += more.optimizer;
    }
    std::int64_t activations = in_flight(sums, c.pipeline, r.rank, micro_batches) * r.least_chunk;
    if (r.logits > 0) {
      activations = std::max(activations, r.least_chunk + r.logits);
    }
    out.ranks.push_back({states, activations});
  }
  const bool whole = c.sharding == job::Sharding::none;
  for (const RankSum& r : sums.time) {
    const Time reduce = ranks > 1 ? s.reduction(c, r.parameters, whole) : Time(0);
    out.chains.push_back({std::max(r.ramp + micro_batches * r.work, micro_batches * r.other),
                          reduce, r.ramp, micro_batches * r.kept, micro_batches * r.largest});
    out.compute = std::max(out.compute, out.chains.back().compute);
  }
  for (const std::int64_t parameters : sums.parameters) {
    out.reduce = ranks > 1 ? std::max(out.reduce, s.reduction(c, parameters, whole)) : Time(0);
  }
  out.alike = s.alike(c.tensor, c.context, c.data);
  out.least_shard = static_cast<double>(sums.parameters.front()) / shards;
  out.steps_behind_all = steps_behind_all(job, c.pipeline);
  out.reduces_behind = job.system.family == job::System::Family::megatron &&
                       !job.parallelism.reduce_each &&
                       (whole || c.sharding == job::Sharding::zero1);
  return &out;
}

Time Bound::least(const Layout& layout) { return std::max(layout.compute, layout.reduce); }

Result Bound::evaluate(const Layout& layout, const Candidate& c) const {
  const job::Offload& away = c.offload != nullptr ? *c.offload : state_->base.memory.offload;
  std::int64_t memory = 0;
  for (const Layout::Rank& r : layout.ranks) {
    memory = std::max(memory, left(r.states.parameters, away.parameters) +
                                  left(r.states.gradients, away.gradients) +
                                  left(r.states.optimizer, away.optimizer) +
                                  left(r.activations, away.activations));
  }
  Time step = std::max(layout.compute, layout.reduce);
  if (away.any()) {
    step = std::max(step, state_->moving(layout, away));
  }
  if (!c.grad_reduce && layout.reduces_behind) {
    for (const Layout::Chain& chain : layout.chains) {
      step = std::max(step, chain.compute + chain.reduce);
    }
  }
  return {true, step, Bytes(memory)};
}

Result Bound::evaluate(const Candidate& c) {
  const Layout* of = layout(c);
  return of != nullptr ? evaluate(*of, c) : Result{};
}

}  // namespace stepcast::bound
