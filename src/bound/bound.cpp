#include "stepcast/bound/bound.h"

#include <algorithm>
#include <numeric>

#include "state.h"
#include "stepcast/base/checked_time.h"

namespace stepcast::bound {
namespace {

// The part of `bytes` that stays on the device.
std::int64_t left(std::int64_t bytes, const strategy::StatedOffloadPart& part) {
  const double share = part.to == OffloadTarget::none ? 0 : part.ratio;
  return share == 0 ? bytes : static_cast<std::int64_t>(static_cast<double>(bytes) * (1 - share));
}

// The cluster without its faults, every GPU linked as the best-linked one: a collective is priced
// once and stands for groups anywhere.
cluster::Topology best_case(const hardware::Cluster& given, const cluster::Topology& topology) {
  if (given.faults.empty() && given.overrides.empty()) {
    return topology;
  }
  hardware::Cluster best = given;
  best.faults.clear();
  best.overrides.clear();
  best.fabric.routing =
      hardware::Fabric::Routing::adaptive;  // no draw of hashed routes does better
  for (const auto& o : given.overrides) {
    best.device.nvlink = std::max(best.device.nvlink, o.device.nvlink);
    best.device.pcie = std::max(best.device.pcie, o.device.pcie);
  }
  auto built = cluster::Topology::build(best);
  auto* whole = std::get_if<cluster::Topology>(&built);
  return whole != nullptr ? std::move(*whole) : topology;
}

bool eight_bits(DType t) { return bytes_per_element(t) <= 1; }

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

}  // namespace

std::int64_t Bound::State::left(const lower::StateBytes& states, const StatedOffload& away) const {
  // Of whole arrays more than the stated share leaves, all of them at most.
  strategy::StatedOffloadPart optimizer = away.optimizer;
  optimizer.ratio = base().offload.whole_arrays ? 1 : optimizer.ratio;
  return bound::left(states.parameters, away.parameters) +
         bound::left(states.gradients, away.gradients) + bound::left(states.optimizer, optimizer);
}

Bound::Bound(const strategy::Variants& jobs, const cluster::Topology& topology,
             const lower::Prices& prices)
    : state_(std::make_unique<State>(jobs, best_case(jobs.base().cluster, topology), prices)) {
  const strategy::Plan& base = state_->base();
  state_->low_precision = eight_bits(base.precision.products);
  state_->same_units = base.accumulation.in_product && !jobs.hosts_units();
  const hardware::Cluster& cluster = base.cluster;
  state_->devices.push_back(&cluster.device);
  for (const auto& o : cluster.overrides) {
    state_->devices.push_back(&o.device);
  }
  // Ranks of a group lie next to each other where nothing else is nearer.
  const std::string& order = cluster.order;
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

std::optional<Infeasible> Bound::refused(const Candidate& c) const {
  auto resolved = state_->jobs.resolve(c);
  auto* why = std::get_if<Infeasible>(&resolved);
  return why == nullptr ? std::nullopt : std::optional(std::move(*why));
}

bool Bound::same_job(const Bound& other, const Candidate& candidate) const {
  return state_->jobs.same_job(other.state_->jobs, candidate);
}

const Bound::Layout* Bound::layout(const Candidate& c) {
  State& s = *state_;
  const std::int64_t micro_batches = s.jobs.most_micro_batches(c);
  if (micro_batches <= 0) {
    return nullptr;
  }
  const std::uint32_t place = s.placed_id(c);
  if (s.placed[place].stages.empty()) {
    return nullptr;
  }
  const std::uint32_t units = s.units_id(c, micro_batches);
  const Sums& sums = s.sums_of(units, place, c.recompute);

  const int ranks = c.data * c.context;
  const strategy::StateSharing sharing = s.jobs.sharing(c);
  const strategy::Plan& policies = s.base_of(sharing);
  Layout& out = s.layout;
  out.ranks.clear();
  out.chains.clear();
  out.compute = out.reduce = Time(0);
  for (const RankSum& r : sums.memory) {
    const lower::StateBytes states = s.states(sharing, r.parameters, r.expert_parameters);
    std::int64_t activations = in_flight(sums, c.pipeline, r.rank, micro_batches) * r.least_chunk;
    if (r.logits > 0) {
      activations = std::max(activations, r.least_chunk + r.logits);
    }
    out.ranks.push_back({states, activations});
  }
  const bool whole = c.sharding == Sharding::none;
  for (const RankSum& r : sums.time) {
    const Time reduce = ranks > 1 ? s.reduction(c, r.parameters, whole) : Time(0);
    const Time passes = checked_sum(r.ahead, checked_product(micro_batches, r.work));
    // A host that does not wait for the gradients goes on with the next step beside them.
    const Time other = checked_product(micro_batches, r.other);
    const Time until = policies.optimizer_step.host_waits ? std::max(passes, other) : passes;
    out.chains.push_back({until, reduce, checked_sum(r.ahead, r.behind), micro_batches * r.kept,
                          micro_batches * r.largest});
    out.compute = std::max({out.compute, checked_sum(passes, r.behind), other});
  }
  for (const std::int64_t parameters : sums.parameters) {
    out.reduce = ranks > 1 ? std::max(out.reduce, s.reduction(c, parameters, whole)) : Time(0);
  }
  out.alike = s.alike(c.tensor, c.context, c.data, c.pipeline);
  out.least_shard = static_cast<double>(sums.parameters.front()) / sharing.shards;
  out.steps_behind_all = steps_behind_all(policies.optimizer_step, c.pipeline);
  out.reduces_behind =
      policies.gradient_sync.sends_behind_backward && (whole || c.sharding == Sharding::zero1);
  return &out;
}

Time Bound::least(const Layout& layout) { return std::max(layout.compute, layout.reduce); }

Result Bound::evaluate(const Layout& layout, const Candidate& c) const {
  const StatedOffload& away = c.offload != nullptr ? *c.offload : state_->jobs.offload();
  std::int64_t memory = 0;
  for (const Layout::Rank& r : layout.ranks) {
    memory = std::max(memory,
                      state_->left(r.states, away) + bound::left(r.activations, away.activations));
  }
  Time step = std::max(layout.compute, layout.reduce);
  if (away.any()) {
    step = std::max(step, state_->moving(layout, away));
  }
  if (!c.grad_reduce && layout.reduces_behind) {
    for (const Layout::Chain& chain : layout.chains) {
      step = std::max(step, checked_sum(chain.compute, chain.reduce));
    }
  }
  return {true, step, Bytes(memory)};
}

Result Bound::evaluate(const Candidate& c) {
  const Layout* of = layout(c);
  return of != nullptr ? evaluate(*of, c) : Result{};
}

}  // namespace stepcast::bound
