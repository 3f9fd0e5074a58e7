#include "state.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "stepcast/base/checked_time.h"

namespace stepcast::bound {
namespace {

// Drops entries that another one exceeds or equals in every figure.
template <class Reaches>
void keep_undominated(std::vector<RankSum>& ranks, const Reaches& reaches) {
  std::vector<RankSum> out;
  for (const RankSum& one : ranks) {
    const auto outdoes = [&](const RankSum& other) { return reaches(other, one); };
    if (std::none_of(out.begin(), out.end(), outdoes)) {
      std::erase_if(out, [&](const RankSum& other) { return reaches(one, other); });
      out.push_back(one);
    }
  }
  ranks = std::move(out);
}

// On a mixed cluster each unit is priced on the device that runs it fastest.
void take_least(lower::UnitTimes& mine, const lower::UnitTimes& theirs) {
  const auto least = [](lower::UnitTime& a, const lower::UnitTime& b) {
    a.forward = std::min(a.forward, b.forward);
    a.backward = std::min(a.backward, b.backward);
    a.kernels = std::min(a.kernels, b.kernels);
    a.host = std::min(a.host, b.host);
    a.issue = std::min(a.issue, b.issue);
    a.expert = std::min(a.expert, b.expert);
    a.weight_grad = std::min(a.weight_grad, b.weight_grad);
    a.again = std::min(a.again, b.again);
    a.again_kernels = std::min(a.again_kernels, b.again_kernels);
    a.again_host = std::min(a.again_host, b.again_host);
    a.again_issue = std::min(a.again_issue, b.again_issue);
    a.again_expert = std::min(a.again_expert, b.again_expert);
  };
  least(mine.embedding, theirs.embedding);
  least(mine.head, theirs.head);
  for (std::size_t i = 0; i < mine.layers.size(); ++i) {
    least(mine.layers[i].second, theirs.layers[i].second);
  }
}

}  // namespace

std::uint32_t Bound::State::recompute_id(const StatedRecompute& recompute) {
  const auto at = std::find(recomputes.begin(), recomputes.end(), recompute);
  const auto id = static_cast<std::uint32_t>(at - recomputes.begin());
  if (at == recomputes.end()) {
    recomputes.push_back(recompute);
  }
  return id;
}

std::uint32_t Bound::State::placed_id(const Candidate& c) {
  const auto key =
      static_cast<std::uint64_t>(c.pipeline) << 32 | static_cast<std::uint32_t>(c.virtual_pipeline);
  const auto [at, fresh] = placed_ids.try_emplace(key, static_cast<std::uint32_t>(placed.size()));
  if (fresh) {
    placed.push_back(jobs.place(c));
  }
  return at->second;
}

lower::UnitTimes Bound::State::price_units(const Candidate& c, std::int64_t micro_batches) const {
  const strategy::Plan plan = jobs.layout(c, micro_batches);
  lower::UnitTimes out = lower::unit_times(plan, topology, prices, *devices.front());
  for (std::size_t n = 1; n < devices.size(); ++n) {
    take_least(out, lower::unit_times(plan, topology, prices, *devices[n]));
  }
  return out;
}

std::uint32_t Bound::State::units_id(const Candidate& c, std::int64_t micro_batches) {
  // Gradients are added up where there is more than one; 8-bit weights are cast once for them all.
  const std::int64_t passes =
      low_precision ? micro_batches : std::min<std::int64_t>(2, micro_batches);
  // Where units are the same however whole ones are shared, sharded ones still differ from them,
  // and from each other in whether passes add to sums.
  const strategy::DataComm comm = jobs.unit_comm(c);
  const bool sharded =
      comm == strategy::DataComm::shard_grads || comm == strategy::DataComm::shard_all;
  const UnitKey key{
      c.micro_batch,
      passes,
      c.tensor,
      c.context,
      c.expert_tensor_ranks(),
      recompute_id(c.recompute),
      static_cast<std::uint8_t>(c.tensor_overlap),
      static_cast<std::uint8_t>(sharded || !same_units ? comm : strategy::DataComm::none),
      c.sequence_parallel && c.tensor > 1,
      !same_units && c.pipeline == 1,
      sharded && jobs.accumulates_whole(c),
      groups_by_data ? c.data : 0,
      groups_by_pipeline ? c.pipeline : 0};
  const auto [at, fresh] = unit_ids.try_emplace(key, static_cast<std::uint32_t>(units.size()));
  if (fresh) {
    units.push_back(price_units(c, passes));
  }
  return at->second;
}

namespace {
// The least bytes of a layer that stay between its passes.
std::int64_t kept_of(const lower::UnitTime& unit, RecomputeKind kind, lower::LayerAgain of) {
  using Kind = RecomputeKind;
  switch (kind) {
    case Kind::none:
    case Kind::selective:
      return unit.kept;
    case Kind::full:
    case Kind::every:
    case Kind::uniform:
    case Kind::block:
      return !of.again ? unit.kept : of.keeps_input ? unit.input : 0;
    default:
      return 0;
  }
}

void sum(Time& into, Time pass, Time again) { into = checked_sum(into, checked_sum(pass, again)); }
}  // namespace

ChunkCost Bound::State::chunk_cost(const lower::UnitTimes& u, const Placed& p,
                                   const strategy::Chunk& chunk,
                                   const StatedRecompute& recompute) const {
  ChunkCost out;
  const auto add = [&](const lower::UnitTime& unit, bool redone) {
    // Where forward and backward passes run as pairs, collectives of one may hide behind the other,
    // and the host launches the one while kernels run that it waits for in the other.
    if (p.pairs) {
      sum(out.forward, unit.kernels, redone ? unit.again_kernels : Time(0));
      sum(out.host, unit.issue, redone ? unit.again_issue : Time(0));
    } else {
      sum(out.host, unit.host, redone ? unit.again_host : Time(0));
      sum(out.forward, unit.forward, Time(0));
      sum(out.backward, unit.backward, redone ? unit.again : Time(0));
      sum(out.weight_grad, unit.weight_grad, Time(0));
    }
    sum(out.expert, unit.expert, redone ? unit.again_expert : Time(0));
    out.parameters += unit.parameters;
    out.expert_parameters += unit.expert_parameters;
  };
  const bool redoes = base().recompute.whole_micro_batches == 0;
  // A group's input is read by its last layer's backward pass, maybe before it has left.
  const bool grouped = recompute.kind == RecomputeKind::uniform;
  for (int n = 0; n < chunk.layers; ++n) {
    const int layer = chunk.first_layer + n;
    const lower::UnitTime& unit = u.layers[static_cast<std::size_t>(kind_of[layer])].second;
    // Prediction layers run again by operators, which their unit's times and bytes have.
    const bool by_operators =
        layer >= base().model.layers && recompute.kind != RecomputeKind::every;
    const auto of = by_operators
                        ? lower::LayerAgain{}
                        : lower::layer_again(recompute.kind, recompute.layers, n, chunk.ahead + n);
    add(unit, of.again && recompute.kind != RecomputeKind::optimal && redoes);
    if (base().parameter_gather.keeps_last_layer && layer + 1 == base().model.layers) {
      out.staying = unit.parameters;
      out.expert_staying = unit.expert_parameters;
    }
    const std::int64_t kept = kept_of(unit, recompute.kind, of);
    out.kept += kept;
    out.last_kept = kept;
    out.layer_before = std::exchange(out.last_layer, unit.parameters + unit.expert_parameters);
    out.last_forward = of.again ? unit.unkept : unit.forward_temporaries;
    out.last_backward = of.again ? unit.remade : unit.backward_temporaries;
    out.largest = grouped ? out.kept : std::max(out.largest, kept);
  }
  out.layer_parameters = out.parameters;
  if (chunk.embedding && !p.splits_vocabulary) {
    add(u.embedding, false);
  }
  if (chunk.head && !p.splits_vocabulary) {
    add(u.head, false);
    // A rank that has both ends has one table (lower/stage/stage_state.cpp, shares_table).
    const auto both_ends = [&](const std::vector<strategy::Chunk>& stage) {
      return std::any_of(stage.begin(), stage.end(),
                         [](const strategy::Chunk& c) { return c.embedding; }) &&
             std::any_of(stage.begin(), stage.end(), [&](const strategy::Chunk& c) {
               return c.head && c.first_layer == chunk.first_layer;
             });
    };
    const bool one_table =
        base().model.tied_embeddings && std::any_of(p.stages.begin(), p.stages.end(), both_ends);
    out.parameters -= one_table ? u.head.parameters : 0;
  }
  return out;
}

Sums Bound::State::add_up(const lower::UnitTimes& u, const Placed& p,
                          const StatedRecompute& recompute) const {
  // A micro-batch runs through one of a bidirectional pipeline's two copies.
  const auto copies = [&](Time pass) { return p.bidirectional ? pass / 2 : pass; };
  Sums out;
  out.chunks = p.chunks;
  out.ramps = p.ramps;
  const auto pipeline = static_cast<int>(p.stages.size());
  Time ahead{0};
  Time behind{0};
  std::vector<RankSum> ranks;
  for (int rank = 0; rank < pipeline; ++rank) {
    RankSum sum;
    sum.rank = rank;
    sum.ahead = ahead;
    sum.behind = behind;
    sum.least_chunk = std::numeric_limits<std::int64_t>::max();
    Time host{0};
    Time expert{0};
    for (const strategy::Chunk& here : p.stages[rank]) {
      const ChunkCost cost = chunk_cost(u, p, here, recompute);
      const Time pass = checked_sum(cost.forward, cost.backward);
      sum.work = checked_sum(sum.work, copies(pass));
      host = checked_sum(host, cost.host);
      expert = checked_sum(expert, cost.expert);
      sum.parameters += cost.parameters;
      sum.expert_parameters += cost.expert_parameters;
      sum.kept += p.bidirectional ? cost.kept / 2 : cost.kept;
      sum.largest += cost.largest;
      sum.least_chunk = std::min(sum.least_chunk, cost.kept);
      if (p.ramps && &here == &p.stages[rank].front()) {
        // Of passes in pairs, the part that lies before the first pass is not known.
        ahead = checked_sum(ahead, p.pairs ? Time(0) : cost.forward);
        behind = checked_sum(behind, p.pairs ? pass : cost.backward);
      }
    }
    sum.other = copies(std::max(host, expert));
    if (rank + 1 == pipeline && p.ramps) {
      // The logits stand on top of their own micro-batch's activations.
      sum.logits = u.head.kept;
    }
    ranks.push_back(sum);
  }
  for (const RankSum& r : ranks) {
    out.parameters.push_back(r.parameters);
  }
  std::sort(out.parameters.begin(), out.parameters.end());
  out.parameters.erase(std::unique(out.parameters.begin(), out.parameters.end()),
                       out.parameters.end());
  out.time = out.memory = std::move(ranks);
  keep_undominated(out.time, [](const RankSum& a, const RankSum& b) {
    return a.work >= b.work && a.ahead >= b.ahead && a.behind >= b.behind && a.other >= b.other &&
           a.parameters >= b.parameters && a.kept >= b.kept && a.largest <= b.largest;
  });
  keep_undominated(out.memory, [](const RankSum& a, const RankSum& b) {
    return a.parameters >= b.parameters && a.expert_parameters >= b.expert_parameters &&
           a.least_chunk >= b.least_chunk && a.logits >= b.logits && a.rank <= b.rank;
  });
  return out;
}

const Sums& Bound::State::sums_of(std::uint32_t unit, std::uint32_t place,
                                  const StatedRecompute& recompute) {
  const auto key = static_cast<std::uint64_t>(unit) << 32 | place;
  const auto [at, fresh] = sums.try_emplace(key);
  if (fresh) {
    at->second = add_up(units[unit], placed[place], recompute);
  }
  return at->second;
}

const strategy::Plan& Bound::State::base_of(const strategy::StateSharing& sharing) const {
  const std::tuple key(sharing.stated, sharing.stages, sharing.comm);
  const auto at = bases.find(key);
  return at != bases.end() ? at->second : bases.emplace(key, jobs.base(sharing)).first->second;
}

lower::StateBytes Bound::State::states(const strategy::StateSharing& sharing,
                                       std::int64_t parameters,
                                       std::int64_t expert_parameters) const {
  const strategy::Plan& plan = base_of(sharing);
  lower::StateBytes out = lower::state_bytes(plan, sharing.comm, sharing.shards, parameters);
  if (expert_parameters > 0) {
    const auto more =
        lower::state_bytes(plan, sharing.comm, sharing.expert_shards, expert_parameters);
    out.parameters += more.parameters;
    out.gradients += more.gradients;
    out.optimizer += more.optimizer;
  }
  return out;
}

Time Bound::State::reduction(const Candidate& c, std::int64_t parameters, bool whole) {
  const GroupKey key{parameters, c.tensor, c.context, c.data, whole};
  const auto [at, fresh] = reductions.try_emplace(key, 0);
  if (fresh) {
    const cluster::Grid grid{c.tensor, c.context, c.data, c.pipeline, 1, base().cluster.order};
    std::vector<int> ranks;
    ranks.reserve(static_cast<std::size_t>(c.data) * c.context);
    for (int d = 0; d < c.data; ++d) {
      for (int k = 0; k < c.context; ++k) {
        ranks.push_back(cluster::rank_at(grid, {0, k, d, 0}));
      }
    }
    std::sort(ranks.begin(), ranks.end());
    const strategy::StateSharing sharing = jobs.sharing(c);
    at->second = lower::least_reduction(base_of(sharing), topology, prices, ranks, sharing.shards,
                                        parameters, whole);
  }
  return at->second;
}

}  // namespace stepcast::bound
