// A closed-form lower bound of step time and of memory: never above what the engine finds, cheap enough to prune
// a search with.
//
// LAW  A step lasts at least as long as (1) the busiest pipeline rank's compute stream (its units'
// passes for every
//      micro-batch, with the tensor collectives that stream waits for, and the optimizer's least
//      traffic), plus the ramp: one micro-batch's forward through all earlier stages before it can
//      begin, and the backward through them after it ended (the gradient norm is a barrier between
//      steps); and (2) the data-parallel traffic of its busiest rank, one after the other on one
//      stream.
// COST a few hundred nanoseconds a candidate; units are priced once per (tensor, sequence parallel,
// micro-batch,
//      recompute).
#pragma once

#include <memory>
#include <variant>

#include "stepcast/base/diagnostics.h"
#include "stepcast/cluster/topology.h"
#include "stepcast/job/job.h"
#include "stepcast/lower/lower.h"

namespace stepcast::bound {

// What a search varies; the rest is the base job's.
struct Candidate {
  int tensor = 1;
  int pipeline = 1;
  int virtual_pipeline = 1;
  int data = 1;
  std::int64_t micro_batch = 1;
  bool sequence_parallel = false;
  job::Sharding sharding = job::Sharding::none;
  job::Recompute recompute;
};

Candidate candidate_of(const strategy::Plan& plan);

struct Result {
  bool feasible = false;  // sizes divide; memory is not judged here
  Time step{0};
  Bytes memory{0};  // of allocated memory at its peak, on the fullest rank: states and activations in flight
};

class Bound {
 public:
  Bound(const job::Job& base, const cluster::Topology& topology, const lower::Prices& prices);
  ~Bound();
  Bound(Bound&&) noexcept;

  Result evaluate(const Candidate& candidate);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stepcast::bound
