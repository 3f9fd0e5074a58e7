// Closed forms for the traffic of data parallelism and for the pipeline's messages. They are lower bounds: no step of the
// lowered program takes less.
#pragma once

#include <array>
#include <map>
#include <utility>

#include "stepcast/lower/exchanges.h"
#include "stepcast/lower/lower.h"

namespace stepcast::lower {

// Of each operation the least seconds per byte of a collective of up to so many half octaves of bytes, latency included;
// filled as it is asked for.
using LeastRates = std::map<std::pair<cost::Collective, int>, double>;

// Data-parallel groups, which many plans share.
struct SharingGroup {
  cluster::GroupShape shape;
  LeastRates rates;
};
using ShapeCache = std::map<std::array<int, 7>, SharingGroup>;

// The closed forms cover how gradients and parameters travel: in no fewer bits, not in tiles, chunks or ticks, to owners, to
// the host, or as a second copy.
bool travels_plainly(const strategy::Plan& plan);

// How gradients and parameters travel, as data_parallel.cpp, buckets.cpp and sharded_units.cpp
// issue it.
class DataTimes {
 public:
  DataTimes(const strategy::Plan& plan, const cluster::Topology& topology, const Prices& prices, ShapeCache& shapes);

  // Something travels, and plainly. All other members are meaningless otherwise.
  bool applies = false;
  bool wraps = false;          // units are gathered and reduced whole
  bool each_pass = false;      // gradients leave behind every backward pass
  bool reduce_beside = false;  // reductions run beside compute; else on the compute stream
  bool gather_beside = false;
  bool sends_as_it_goes = false;     // gradients leave during the backward pass; else at the step's end
  bool shards_states = false;        // parameters are gathered once a step
  bool drops_after_forward = false;  // wrapped units are gathered again for the backward pass
  enum class Drops { never, when_reduced, always } drops_after_backward = Drops::never;  // when_reduced: FSDP1
  bool units_alone = false;  // each unit is gathered and reduced in one collective a kind of parameters
  bool norm_joins = false;   // a barrier of all stages stands before the optimizer

  // The least time of one collective over all given elements of each kind of parameters, without its latency, or of several
  // smaller ones: an algorithm's rate may fall beyond some size (PAT, NVLS).
  Time reduce(std::int64_t dense, std::int64_t expert) const;
  Time gather(std::int64_t dense, std::int64_t expert) const;
  // What it costs a device's compute stream that one unit is gathered, or its gradients are reduced, whole. Zero without
  // `units_alone`.
  struct OnCompute {
    Time copied{0};  // kernels that copy parameters out of what was gathered, or gradients into what is reduced
    Time lost{0};    // what other kernels lose at least while the collectives run beside them
    Time moved{0};   // of the collectives themselves, with latencies
  };
  OnCompute gathering(std::int64_t dense, std::int64_t expert, const job::Device& device) const;
  OnCompute reducing(std::int64_t dense, std::int64_t expert, const job::Device& device) const;
  // Whether gradients of the chunk leave in buckets while its backward pass goes on.
  bool bucketed(int stage, int chunk) const;
  // The least number of the chunk's parameters for which its first unit waits.
  std::int64_t first_piece(int stage, int chunk, std::int64_t elements) const;

 private:
  Time price(cost::Collective op, double bytes, bool expert) const;
  OnCompute on_compute(cost::Collective op, bool beside, double copied, const std::array<double, 2>& moved,
                       const job::Device& device) const;

  const strategy::Plan& plan_;
  const Prices& prices_;
  SharingGroup* dense_ = nullptr;
  SharingGroup* expert_ = nullptr;  // nullptr: a rank alone
};

// The least time of sending all dense gradients of a rank, `elements`, where `ranks` (in ascending order) hold the same
// parameters and each `shards` of them one copy of the states. Of `plan` its precision, cluster and policies are read.
// `whole`: gradients are all-reduced. Left out: latencies, casts, and copies through the host's memory.
Time least_reduction(const strategy::Plan& plan, const cluster::Topology& topology, const Prices& prices,
                     const std::vector<int>& ranks, int shards, std::int64_t elements, bool whole);

// How stages pass messages on: not at all; on the compute stream, one after the other (blocking) or several at once
// (exchanged); beside compute, but posted by the loop of interleaved 1F1B (overlapped); or beside compute in the order of
// the schedule.
struct StageMessages {
  enum class Form { none, blocking, exchanged, overlapped, beside } form = Form::none;
  std::vector<std::vector<Exchange>> exchanges;  // exchanged: by rank
  bool batched = false;                          // blocking: where the pass changes, send and receive are posted together
  bool follows_pass = false;            // blocking, one by one: stages behind a backward pass receive first, not odd ones
  std::vector<Time> forward, backward;  // by r, from stage r to r + 1 (the last to the first), and from r + 1 back to r
};
StageMessages stage_messages(const strategy::Plan& plan, const cluster::Topology& topology, const Prices& prices);

}  // namespace stepcast::lower
