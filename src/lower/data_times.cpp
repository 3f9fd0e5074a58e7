#include "stepcast/lower/data_times.h"

#include <algorithm>

#include "data_parallel.h"
#include "groups.h"
#include "stage.h"

namespace stepcast::lower {

using cost::Collective;
using strategy::DataComm;

namespace {

double wide(DType type) { return bytes_per_element(type); }

// The first ranks of stage 0 that share what one rank holds, every `stride`-th of the stage's.
std::vector<int> sharing_ranks(const strategy::Plan& plan, bool expert, int count) {
  std::vector<int> out;
  const cluster::Grid& grid = plan.grid;
  const int stride = plan.shard.expert * plan.shard.expert_tensor;
  int seen = 0;
  for (int r = 0; r < grid.ranks() && static_cast<int>(out.size()) < count; ++r) {
    const cluster::Coordinates at = cluster::coordinates(grid, r);
    if (at.pipeline == 0 && (expert ? seen++ % stride == 0 : at.tensor == 0)) {
      out.push_back(r);
    }
  }
  return out;
}

}  // namespace

DataTimes::DataTimes(const strategy::Plan& plan, const cluster::Topology& topology,
                     const Prices& prices, ShapeCache& shapes)
    : plan_(plan), prices_(prices) {
  const job::Job& job = plan.job;
  const job::System& system = job.system;
  const auto& p = job.parallelism;
  norm_joins = plan.grid.ranks() > 1 && !(system.optimizer_post_validation && p.pipeline > 1) &&
               !job.memory.offload.any();
  const bool plain = !p.zeropp.weights && !p.zeropp.gradients && p.zeropp.partition == 0 &&
                     p.reshard_size <= 1 && !system.hierarchical_all_reduce &&
                     !system.reduce_to_owner && system.cycle_time.count() == 0 &&
                     system.persistent_elements == 0 && system.reuse_elements == 0 &&
                     !job.memory.offload.any() &&
                     job.workload.finetune.kind == FinetuneKind::none &&
                     plan.order.placement != schedule::Placement::bidirectional &&
                     system.family != job::System::Family::deepspeed;
  told = plain && plan.data_comm != DataComm::none;
  if (!told) {
    return;
  }
  wraps = wraps_units(plan);
  each_pass = reduces_each_pass(plan);
  const bool with_stages = plan.grid.pipeline > 1 && !system.overlap_with_pipeline;
  reduce_beside = !with_stages && (p.overlap.grad_reduce || (wraps && system.zero3_overlaps));
  gather_beside = p.overlap.param_gather || (wraps && system.zero3_overlaps);
  sends_as_it_goes = reduce_beside || p.reduce_each || plan.data_comm == DataComm::shard_grads;
  shards_states = !wraps && (plan.data_comm == DataComm::shard_states ||
                             plan.data_comm == DataComm::shard_grads);
  drops_after_forward = plan.data_comm == DataComm::shard_all && p.reshard_after_forward;
  drops_after_backward = each_pass || plan.grid.pipeline == 1;
  const bool whole = plan.data_comm == DataComm::all_reduce;
  const auto shape = [&](bool expert, int count) -> const cluster::GroupShape* {
    if (count < 2) {
      return nullptr;
    }
    const int stride = expert ? plan.shard.expert * plan.shard.expert_tensor : 0;
    const std::array<int, 7> key{
        plan.grid.tensor, plan.grid.context, plan.grid.data, plan.grid.pipeline, stride, count, 0};
    auto at = shapes.find(key);
    if (at == shapes.end()) {
      at = shapes.emplace(key, topology.shape(sharing_ranks(plan, expert, count))).first;
    }
    return &at->second;
  };
  dense_ = shape(false, whole ? plan.data_ranks() : plan.shard_ranks);
  if (job.model.moe) {
    expert_ = shape(true, whole ? plan.expert_data : strategy::expert_shards(plan));
  }
}

Time DataTimes::price(Collective op, double bytes, bool expert) const {
  const cluster::GroupShape* shape = expert ? expert_ : dense_;
  if (shape == nullptr || bytes < 1) {
    return Time(0);
  }
  return prices_.collectives->price(op, Bytes(static_cast<std::int64_t>(bytes)), *shape).fluid;
}

Time DataTimes::reduce(std::int64_t dense, std::int64_t expert) const {
  const double each = wide(plan_.job.memory.dtypes.reduce);
  const Collective op =
      plan_.data_comm == DataComm::all_reduce ? Collective::all_reduce : Collective::reduce_scatter;
  return price(op, static_cast<double>(dense) * each, false) +
         price(op, static_cast<double>(expert) * each, true);
}

Time DataTimes::gather(std::int64_t dense, std::int64_t expert) const {
  const double each = wide(plan_.style.dtype);
  return price(Collective::all_gather, static_cast<double>(dense) * each, false) +
         price(Collective::all_gather, static_cast<double>(expert) * each, true);
}

bool DataTimes::bucketed(int stage, int chunk) const {
  return !plan_.job.system.bucket_first_stage_only || (stage == 0 && chunk == 0);
}

std::int64_t DataTimes::first_piece(int stage, int chunk, std::int64_t elements) const {
  const bool cut = reduce_beside && bucketed(stage, chunk);
  return cut ? std::min(elements, strategy::bucket_elements(plan_)) : elements;
}

StageMessages stage_messages(const strategy::Plan& plan, const cluster::Topology& topology,
                             const Prices& prices) {
  StageMessages out;
  const int p = plan.grid.pipeline;
  if (p == 1) {
    return out;
  }
  const auto& asked = plan.job.parallelism.schedule;
  const std::string name = asked ? asked->name : plan.interleaved ? "interleaved_1f1b" : "1f1b";
  const bool loops = plan.order.barriers == 0 && !strategy::pairs_passes(plan.job) &&
                     (name == "1f1b" || name == "gpipe" || name == "interleaved_1f1b");
  using Form = StageMessages::Form;
  out.form = loops && !plan.interleaved                       ? Form::blocking
             : loops && plan.job.parallelism.overlap.pipeline ? Form::overlapped
                                                              : Form::beside;
  out.batched = plan.job.system.batched_p2p;
  const Bytes bytes(message_bytes(plan));
  for (int r = 0; r < p; ++r) {
    cluster::Coordinates here, next;
    here.pipeline = r;
    next.pipeline = (r + 1) % p;
    const int from = cluster::rank_at(plan.grid, here);
    const int to = cluster::rank_at(plan.grid, next);
    const auto hop = [&](int a, int b) {
      const auto price = prices.collectives->point_to_point(bytes, topology.path(a, b));
      return price.latency + price.fluid;
    };
    out.forward.push_back(hop(from, to));
    out.backward.push_back(hop(to, from));
  }
  return out;
}

}  // namespace stepcast::lower
