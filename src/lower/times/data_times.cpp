#include "stepcast/lower/data_times.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "../data/data_parallel.h"
#include "../data/parameter_formats.h"
#include "../stage/stage.h"
#include "../world/groups.h"
#include "beside.h"
#include "stepcast/base/checked_time.h"
#include "stepcast/lower/whole_units.h"

namespace stepcast::lower {

using cost::Collective;
using strategy::DataComm;

namespace {

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

// The least time of `bytes` at full rate in one collective, or in several with their latencies.
// Sizes between half octaves are not tried: rates are measured an octave apart.
Time least_in_parts(const cost::Collectives& collectives, Collective op, double bytes,
                    const cluster::GroupShape& group, LeastRates& rates) {
  constexpr int kInOctave = 2;
  constexpr int kLeast = 20 * kInOctave;  // 1 MiB: below, latencies are what counts
  const int most = static_cast<int>(std::floor(std::log2(bytes) * kInOctave));
  const Time whole = collectives.price(op, Bytes(static_cast<std::int64_t>(bytes)), group).fluid;
  double rate = std::numeric_limits<double>::infinity();
  for (int size = kLeast; size <= most; ++size) {
    const auto [at, is_new] = rates.try_emplace({op, size}, rate);
    if (is_new) {
      const double part = std::floor(std::exp2(static_cast<double>(size) / kInOctave));
      const cost::CollectivePrice price =
          collectives.price(op, Bytes(static_cast<std::int64_t>(part)), group);
      at->second = std::min(rate, to_seconds(checked_sum(price.latency, price.fluid)) / part);
    }
    rate = at->second;
  }
  return std::isinf(rate) ? whole : std::min(whole, seconds(rate * bytes));
}

}  // namespace

bool travels_plainly(const strategy::Plan& plan) {
  const strategy::GradientSync& sync = plan.gradient_sync;
  const strategy::ParameterGather& gather = plan.parameter_gather;
  return !gather.quantised && gather.float8 == Float8Gather::none && !sync.quantised &&
         !gather.partition_stands && gather.partition <= 1 && !sync.hierarchical &&
         !gather.from_owners && sync.cycle_time.count() == 0 && gather.persistent_elements == 0 &&
         !gather.unit_buffers && gather.reuse_elements == 0 && !plan.offload.any() &&
         plan.style.finetune.kind == FinetuneKind::none &&
         plan.order.placement != schedule::Placement::bidirectional && !sync.always_in_buckets;
}

DataTimes::DataTimes(const strategy::Plan& plan, const cluster::Topology& topology,
                     const Prices& prices, ShapeCache& shapes)
    : plan_(plan), prices_(prices) {
  const strategy::GradientSync& sync = plan.gradient_sync;
  const strategy::ParameterGather& gather = plan.parameter_gather;
  norm_joins = plan.grid.ranks() > 1 &&
               !(plan.optimizer_step.post_validated && plan.grid.pipeline > 1) &&
               !plan.offload.any();
  applies = plan.data_comm != DataComm::none && travels_plainly(plan);
  if (!applies) {
    return;
  }
  wraps = gather.by_units;
  each_pass = sync.each_pass;
  reduce_beside = sync.overlaps;
  gather_beside = gather.overlaps;
  sends_as_it_goes = sync.sends_as_filled;
  shards_states = !wraps && (plan.data_comm == DataComm::shard_states ||
                             plan.data_comm == DataComm::shard_grads);
  drops_after_forward = plan.data_comm == DataComm::shard_all && gather.reshard_after_forward;
  if (each_pass || plan.grid.pipeline == 1) {
    const bool stays = gather.flat && !gather.by_arrays && !gather.reshard_after_forward;
    drops_after_backward = stays ? Drops::when_reduced : Drops::always;
  }
  units_alone = whole_units(plan).applies && gather.unit_layers <= 1 && !gather.alone &&
                gather.prefetch_elements == 0;
  const bool whole = plan.data_comm == DataComm::all_reduce;
  const auto shape = [&](bool expert, int count) -> SharingGroup* {
    if (count < 2) {
      return nullptr;
    }
    const int stride = expert ? plan.shard.expert * plan.shard.expert_tensor : 0;
    const std::array<int, 7> key{
        plan.grid.tensor, plan.grid.context, plan.grid.data, plan.grid.pipeline, stride, count, 0};
    auto at = shapes.find(key);
    if (at == shapes.end()) {
      at = shapes.emplace(key, SharingGroup{topology.shape(sharing_ranks(plan, expert, count)), {}})
               .first;
    }
    return &at->second;
  };
  dense_ = shape(false, whole ? plan.data_ranks() : plan.shard_ranks);
  if (plan.model.moe) {
    expert_ = shape(true, whole ? plan.expert_data : strategy::expert_shards(plan));
  }
}

Time DataTimes::price(Collective op, double bytes, bool expert) const {
  SharingGroup* group = expert ? expert_ : dense_;
  if (group == nullptr || bytes < 1) {
    return Time(0);
  }
  return least_in_parts(*prices_.collectives, op, bytes, group->shape, group->rates);
}

Time DataTimes::reduce(std::int64_t dense, std::int64_t expert) const {
  const double each = bytes_per_element(plan_.precision.reduce);
  const Collective op =
      plan_.data_comm == DataComm::all_reduce ? Collective::all_reduce : Collective::reduce_scatter;
  return price(op, static_cast<double>(dense) * each, false) +
         price(op, static_cast<double>(expert) * each, true);
}

Time DataTimes::gather(std::int64_t dense, std::int64_t expert) const {
  // Of which of the parameters are weights of products it is not told.
  const double each = gathered_width(plan_, true);
  return price(Collective::all_gather, static_cast<double>(dense) * each, false) +
         price(Collective::all_gather, static_cast<double>(expert) * each, true);
}

// As sharded_parameters.cpp and sharded_gradients.cpp issue them. `moved`: bytes of dense
// parameters and of experts'.
DataTimes::OnCompute DataTimes::on_compute(Collective op, bool beside, double copied,
                                           const std::array<double, 2>& moved,
                                           const hardware::Device& device) const {
  OnCompute out;
  if (!units_alone || copied < 1) {
    return out;
  }
  const cost::Kernels& kernels = *prices_.kernels.at(device.name);
  out.copied = kernels.memory(cost::MemoryOp::copy, Bytes(static_cast<std::int64_t>(copied))).time;
  const cost::Overlap overlap = kernels.overlap();
  for (const bool expert : {false, true}) {
    const SharingGroup* group = expert ? expert_ : dense_;
    const Bytes bytes(static_cast<std::int64_t>(moved[expert ? 1 : 0]));
    if (group == nullptr || bytes.count() == 0) {
      continue;
    }
    const cost::CollectivePrice price = prices_.collectives->price(op, bytes, group->shape);
    const Time takes = checked_sum(price.latency, price.fluid);
    out.moved = checked_sum(out.moved, takes);
    if (beside) {
      const std::uint16_t pressure = pressure_of(price, device.memory_bandwidth);
      out.lost += share_of(takes, least_loss(device, overlap, kEveryKind, pressure));
    }
  }
  return out;
}

DataTimes::OnCompute DataTimes::gathering(std::int64_t dense, std::int64_t expert,
                                          const hardware::Device& device) const {
  const double each = gathered_width(plan_, true);
  const std::array<double, 2> moved{static_cast<double>(dense) * each,
                                    static_cast<double>(expert) * each};
  return on_compute(Collective::all_gather, gather_beside, 2 * (moved[0] + moved[1]), moved,
                    device);
}

DataTimes::OnCompute DataTimes::reducing(std::int64_t dense, std::int64_t expert,
                                         const hardware::Device& device) const {
  const double each = width(plan_.precision.reduce);
  const double copied = static_cast<double>(dense + expert) * (width(plan_.style.dtype) + each);
  return on_compute(Collective::reduce_scatter, reduce_beside, copied,
                    {static_cast<double>(dense) * each, static_cast<double>(expert) * each},
                    device);
}

bool DataTimes::bucketed(int stage, int chunk) const {
  return !plan_.gradient_sync.first_stage_only || (stage == 0 && chunk == 0);
}

std::int64_t DataTimes::first_piece(int stage, int chunk, std::int64_t elements) const {
  const bool cut = reduce_beside && bucketed(stage, chunk);
  return cut ? std::min(elements, plan_.gradient_sync.bucket_elements) : elements;
}

Time least_reduction(const strategy::Plan& plan, const cluster::Topology& topology,
                     const Prices& prices, const std::vector<int>& ranks, int shards,
                     std::int64_t elements, bool whole) {
  const strategy::GradientSync& sync = plan.gradient_sync;
  // Of the group that every `stride`-th rank from the first on is in.
  const auto price = [&](Collective op, double bytes, int count, int stride) {
    if (count < 2) {
      return Time(0);
    }
    std::vector<int> group;
    for (int i = 0; i < count; ++i) {
      group.push_back(ranks[static_cast<std::size_t>(i) * stride]);
    }
    LeastRates rates;
    return bytes < 1 ? Time(0)
                     : least_in_parts(*prices.collectives, op, bytes, topology.shape(group), rates);
  };
  const auto count = static_cast<double>(elements);
  const double bytes = count * bytes_per_element(plan.precision.reduce);
  const int all = static_cast<int>(ranks.size());
  const int sharers = whole ? all : std::min(shards, all);
  const int inner = node_share({ranks.begin(), ranks.begin() + sharers}, plan.cluster.node.gpus);
  const auto in_two_levels = [&] {  // buckets.cpp: reduce_in_two_levels
    return checked_sum(
        price(Collective::reduce_scatter, bytes, inner, 1),
        checked_sum(price(Collective::all_reduce, bytes / inner, sharers / inner, inner),
                    price(Collective::all_gather, bytes, inner, 1)));
  };
  if (whole) {
    return sync.hierarchical ? in_two_levels() : price(Collective::all_reduce, bytes, all, 1);
  }
  Time least = price(Collective::reduce_scatter, bytes, sharers, 1);
  if (sync.hierarchical) {
    least = std::min(least, in_two_levels());
  }
  if (sync.quantised) {  // sharded_units.cpp: quantised_reduce
    const double narrow = count * bytes_per_element(*sync.quantised) / 2;
    least = std::min(
        least, checked_sum(price(Collective::all_to_all, narrow, inner, 1),
                           price(Collective::all_to_all, narrow / inner, sharers / inner, inner)));
  }
  // Copies add their shards up on a stream of their own, or in place of it all at once.
  return std::max(least, price(Collective::all_reduce, bytes / sharers, all / sharers, sharers));
}

StageMessages stage_messages(const strategy::Plan& plan, const cluster::Topology& topology,
                             const Prices& prices) {
  StageMessages out;
  const int p = plan.grid.pipeline;
  if (p == 1) {
    return out;
  }
  using Form = StageMessages::Form;
  const strategy::StageTransport& transport = plan.stage_transport;
  out.form = !transport.holds_compute ? Form::beside
             : !plan.interleaved      ? Form::blocking
             : transport.overlaps     ? Form::overlapped
                                      : Form::exchanged;
  for (int r = 0; out.form == Form::exchanged && r < p; ++r) {
    out.exchanges.push_back(interleaved_exchanges(plan, r));
  }
  out.batched = transport.batched;
  out.follows_pass = transport.follows_pass;
  // Messages differ where streams of earlier blocks go along: the least is at most any.
  const auto least_into = [&](int rank) {
    std::int64_t least = message_bytes(plan);
    for (const strategy::Chunk& chunk : plan.stages[static_cast<std::size_t>(rank)]) {
      least = chunk.stage > 0 ? std::min(least, message_bytes_at(plan, chunk.stage)) : least;
    }
    return least;
  };
  const std::int64_t senders = gradient_message_bytes(plan) / message_bytes(plan);
  for (int r = 0; r < p; ++r) {
    cluster::Coordinates here, next;
    here.pipeline = r;
    next.pipeline = (r + 1) % p;
    const int from = cluster::rank_at(plan.grid, here);
    const int to = cluster::rank_at(plan.grid, next);
    const auto hop = [&](Bytes bytes, int a, int b) {
      const auto price = prices.collectives->point_to_point(bytes, topology.path(a, b));
      return price.latency + price.fluid;
    };
    const std::int64_t least = least_into((r + 1) % p);
    out.forward.push_back(hop(Bytes(least), from, to));
    out.backward.push_back(hop(Bytes(senders * least), to, from));
  }
  return out;
}

}  // namespace stepcast::lower
