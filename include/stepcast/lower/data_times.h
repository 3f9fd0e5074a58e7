// What data parallelism and the pipeline's messages cost by closed forms: times that no step of the
// lowered program goes below.
#pragma once

#include <array>
#include <map>

#include "stepcast/lower/lower.h"

namespace stepcast::lower {

// Shapes of data-parallel groups, which many plans share.
using ShapeCache = std::map<std::array<int, 7>, cluster::GroupShape>;

// How gradients and parameters travel, as data_parallel.cpp, buckets.cpp and sharded_units.cpp
// issue it.
class DataTimes {
 public:
  DataTimes(const strategy::Plan& plan, const cluster::Topology& topology, const Prices& prices, ShapeCache& shapes);

  // Nothing travels, or in a way that is not told here (quantised, in tiles, chunks, ticks, by
  // owners, to the host): all that follows says nothing then.
  bool told = false;
  bool wraps = false;          // units gathered and reduced whole
  bool each_pass = false;      // gradients leave behind every backward pass
  bool reduce_beside = false;  // else on the compute stream
  bool gather_beside = false;
  bool sends_as_it_goes = false;     // else at the step's end
  bool shards_states = false;        // parameters are gathered once a step
  bool drops_after_forward = false;  // wraps: gathered again for the backward pass
  bool drops_after_backward = false;
  bool norm_joins = false;  // a barrier of all stages stands before the optimizer

  // One collective of so many elements for each kind of parameters, without its latency: no number
  // of smaller ones is faster.
  Time reduce(std::int64_t dense, std::int64_t expert) const;
  Time gather(std::int64_t dense, std::int64_t expert) const;
  // Gradients of the chunk leave in buckets while its backward pass goes on.
  bool bucketed(int stage, int chunk) const;
  // Of the chunk's parameters, how many its first unit waits for at least.
  std::int64_t first_piece(int stage, int chunk, std::int64_t elements) const;

 private:
  Time price(cost::Collective op, double bytes, bool expert) const;

  const strategy::Plan& plan_;
  const Prices& prices_;
  const cluster::GroupShape* dense_ = nullptr;
  const cluster::GroupShape* expert_ = nullptr;  // nullptr: a rank alone
};

// How stages pass messages on.
struct StageMessages {
  enum class Form { none, blocking, overlapped, beside } form = Form::none;
  bool batched = false;                 // blocking: where the pass changes both are posted together
  std::vector<Time> forward, backward;  // from stage r to r + 1 (round), and back from r + 1 to r
};
StageMessages stage_messages(const strategy::Plan& plan, const cluster::Topology& topology, const Prices& prices);

}  // namespace stepcast::lower
