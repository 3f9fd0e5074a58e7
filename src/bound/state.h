// What a Bound has priced so far.
#pragma once

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "passes.h"
#include "stepcast/bound/bound.h"
#include "stepcast/lower/data_times.h"
#include "stepcast/lower/offload_times.h"

namespace stepcast::bound {

using strategy::Placed;
using strategy::StatedOffload;
using strategy::StatedRecompute;

// What decides a unit's kernels.
struct UnitKey {
  std::int64_t micro_batch = 1;
  std::int64_t passes = 1;
  int tensor = 1, context = 1, expert_tensor = 1;
  std::uint32_t recompute = 0;
  std::uint8_t tensor_overlap = 0, comm = 0;
  bool sequence_parallel = false;
  bool whole_model = false;  // no pipeline, where units depend on it
  bool adds_up = false;      // of sharded units: passes add gradients to sums
  // 0 unless rank 0's groups depend on them.
  int data = 0, pipeline = 0;
  bool operator==(const UnitKey&) const = default;
};

// What decides the price of all gradients in one collective.
struct GroupKey {
  std::int64_t parameters = 0;
  int tensor = 1, context = 1, data = 1;
  bool whole = false;
  bool operator==(const GroupKey&) const = default;
};

struct Hash {
  static std::size_t mix(std::initializer_list<std::uint64_t> of) {
    std::uint64_t h = 0;
    for (const std::uint64_t v : of) {
      h = (h ^ v) * 0x9e3779b97f4a7c15ULL;
      h ^= h >> 32;
    }
    return h;
  }
  std::size_t operator()(const UnitKey& k) const {
    const auto pair = [](int a, int b) {
      return static_cast<std::uint64_t>(a) << 32 | static_cast<std::uint32_t>(b);
    };
    return mix({static_cast<std::uint64_t>(k.micro_batch), static_cast<std::uint64_t>(k.passes),
                pair(k.tensor, k.context), pair(k.expert_tensor, static_cast<int>(k.recompute)),
                static_cast<std::uint64_t>(k.tensor_overlap) << 16 | k.comm << 8 |
                    (k.adds_up ? 4U : 0U) | (k.sequence_parallel ? 2U : 0U) |
                    (k.whole_model ? 1U : 0U),
                pair(k.data, k.pipeline)});
  }
  std::size_t operator()(const GroupKey& k) const {
    return mix({static_cast<std::uint64_t>(k.parameters), static_cast<std::uint64_t>(k.tensor),
                static_cast<std::uint64_t>(k.context), static_cast<std::uint64_t>(k.data),
                k.whole ? 1U : 0U});
  }
};

// Sums over one pipeline rank. Ranks that another one exceeds in every figure are dropped.
struct RankSum {
  Time work{0};   // of one micro-batch through all its chunks, on the compute stream
  Time other{0};  // on the host or in messages beside compute; the step takes at least as long
  // One micro-batch in the stages before it: until its first pass, and from the end of its last.
  Time ahead{0}, behind{0};
  std::int64_t parameters = 0;
  std::int64_t expert_parameters = 0;
  std::int64_t kept = 0;         // bytes of activations of one micro-batch, of all chunks
  std::int64_t largest = 0;      // of one layer, times chunks
  std::int64_t least_chunk = 0;  // bytes of activations
  std::int64_t logits = 0;       // bytes on top of the last rank's chunk
  int rank = 0;
};

// Units of one price over the ranks of one placement.
struct Sums {
  std::vector<RankSum> time;             // the longest work or the longest ramps
  std::vector<RankSum> memory;           // the most states or the most in flight
  std::vector<std::int64_t> parameters;  // dense, distinct
  int chunks = 1;
  bool ramps = false;
};

// The least bytes of a chunk's or rank's saved activations that travel: the last units of a chunk
// may be needed again before they have left (lower/offload/activation_moves.h).
double travelling(ActivationOffload form, const StatedOffload& offload, std::int64_t kept,
                  std::int64_t largest);
// Whether the optimizer's step stands between all of one step and the next one.
bool steps_behind_all(const strategy::OptimizerStep& step, int pipeline);

struct Bound::Layout {
  struct Rank {
    lower::StateBytes states;
    std::int64_t activations = 0;
  };
  struct Chain {
    Time compute{0};                     // until its last pass has ended
    Time reduce{0};                      // of its gradients
    Time ramps{0};                       // before its first pass and after its last
    std::int64_t kept = 0, largest = 0;  // of all micro-batches: as RankSum
  };
  std::vector<Rank> ranks;
  std::vector<Chain> chains;
  Time compute{0};  // the longest of all chains
  Time reduce{0};   // the longest of all chains
  int alike = 1;    // ranks of a node that run one stage
  bool steps_behind_all = false;
  double least_shard = 0;       // elements that any rank steps, experts apart
  bool reduces_behind = false;  // without overlap, gradients leave behind the last backward pass
};

struct Bound::State {
  State(const strategy::Variants& of_job, cluster::Topology of, const lower::Prices& prices_of)
      : jobs(of_job), topology(std::move(of)), prices(prices_of) {}

  strategy::Variants jobs;
  cluster::Topology topology;
  lower::Prices prices;
  std::vector<const hardware::Device*> devices;  // of the base and of its overrides
  std::vector<int> kind_of;                      // of a layer, as lower::unit_times lists kinds
  bool same_units = false;                       // however whole ones are shared
  bool low_precision = false;  // weights are cast once a step: their share depends on its passes
  // Whether rank 0's groups of tensor, context and expert ranks change with these sizes.
  bool groups_by_data = false, groups_by_pipeline = false;

  std::vector<StatedRecompute> recomputes;
  std::unordered_map<UnitKey, std::uint32_t, Hash> unit_ids;
  std::deque<lower::UnitTimes> units;
  std::unordered_map<std::uint64_t, std::uint32_t> placed_ids;
  std::deque<Placed> placed;
  std::unordered_map<std::uint64_t, Sums> sums;  // by units and placement
  std::unordered_map<GroupKey, Time, Hash> reductions;
  lower::ShapeCache shapes;
  Layout layout;
  std::optional<lower::OffloadTimes> offload_times[2];  // pageable, pinned
  mutable std::map<std::tuple<Sharding, bool, strategy::DataComm>, strategy::Plan> bases;

  const strategy::Plan& base() const { return jobs.base(); }
  // The base's policies where candidates share their states so.
  const strategy::Plan& base_of(const strategy::StateSharing& sharing) const;
  std::uint32_t recompute_id(const StatedRecompute& recompute);
  std::uint32_t placed_id(const Candidate& c);
  std::uint32_t units_id(const Candidate& c, std::int64_t micro_batches);
  const Sums& sums_of(std::uint32_t units, std::uint32_t placed, const StatedRecompute& recompute);
  // What moves activations and steps on the CPUs, the optimizer whole.
  const lower::OffloadTimes& times_of(const StatedOffload& offload);
  // Compute, and what travels or is stepped outside: the longest chain.
  Time moving(const Layout& layout, const StatedOffload& away);
  lower::StateBytes states(const strategy::StateSharing& sharing, std::int64_t parameters,
                           std::int64_t expert_parameters) const;
  lower::StateBytes states_of(const strategy::StateSharing& sharing,
                              const std::vector<Pass>& passes) const;
  Time least_step(const strategy::OptimizerStep& step, const lower::StateBytes& states) const;
  // The part of a rank's states that stays on the device.
  std::int64_t left(const lower::StateBytes& states, const StatedOffload& away) const;
  // What the fullest rank allocates at its peak, by the order of its passes, and what lies outside.
  // `plan`: without what is offloaded, `away`. `passes`: by rank and chunk.
  Bytes most_memory(const Candidate& c, const strategy::Plan& plan, const StatedOffload& away,
                    const std::vector<std::vector<Pass>>& passes) const;
  // Ranks of a node, any, that run one stage, where nodes are filled in this order.
  int alike(int tensor, int context, int data, int pipeline) const;
  // All gradients of a rank at once: never dearer than bucket by bucket.
  Time reduction(const Candidate& c, std::int64_t parameters, bool whole);

  ChunkCost chunk_cost(const lower::UnitTimes& units, const Placed& placed,
                       const strategy::Chunk& chunk, const StatedRecompute& recompute) const;
  struct Travel {
    lower::DataTimes::OnCompute gathering, reducing;
  };
  std::vector<Travel> travels(const lower::UnitTimes& of, const lower::DataTimes& data) const;
  void add_travel(const std::vector<Travel>& by_kind, const strategy::Chunk& chunk, Pass& of) const;

 private:
  lower::UnitTimes price_units(const Candidate& c, std::int64_t micro_batches) const;
  Sums add_up(const lower::UnitTimes& units, const Placed& placed,
              const StatedRecompute& recompute) const;
};

}  // namespace stepcast::bound
