// A closed-form lower bound of step time and of memory: never above what the engine finds, cheap
// enough to prune a search with.
//
// LAW  A step lasts at least as long as (1) the busiest pipeline rank's compute stream (its units'
//      passes for every micro-batch, with the tensor collectives that stream waits for), plus the
//      ramp: one micro-batch's forward through all earlier stages before it can begin, and the
//      backward through them after it ended (the gradient norm is a barrier between steps) or,
//      beside that, the rank's gradients on the wire where nothing overlaps them; and (2) the
//      data-parallel traffic of its busiest rank, one after the other on one stream.
// COST units are priced once per what decides their kernels (some 0.1 ms); a Layout costs a few
//      hundred nanoseconds, a candidate of a Layout some ten.
#pragma once

#include <memory>
#include <optional>
#include <variant>

#include "stepcast/base/diagnostics.h"
#include "stepcast/cluster/topology.h"
#include "stepcast/lower/lower.h"
#include "stepcast/strategy/variants.h"

namespace stepcast::bound {

using strategy::Candidate;
using strategy::candidate_of;

struct Result {
  bool feasible = false;  // sizes divide; memory is not judged here
  Time step{0};
  Bytes memory{0};  // of allocated memory at its peak, on the fullest rank: states and activations in flight
};

struct Refined {
  Time step{0};                       // never below Result::step
  Bytes memory{0};                    // of the process at its peak; never below Result::memory
  std::optional<Infeasible> refused;  // the plan cannot be made: no engine would run it
};

class Bound {
 public:
  // `jobs`: of a job, implicitly; candidates are all others that a search may make of it.
  Bound(const strategy::Variants& jobs, const cluster::Topology& topology, const lower::Prices& prices);
  ~Bound();
  Bound(Bound&&) noexcept;

  Result evaluate(const Candidate& candidate);

  // In two steps, for many candidates that differ only behind `tensor_overlap`. nullptr: sizes do
  // not divide. What it points to holds until the next call.
  struct Layout;
  const Layout* layout(const Candidate& candidate);
  Result evaluate(const Layout& layout, const Candidate& candidate) const;
  // With the schedule played: messages between stages and data-parallel traffic in their places, and
  // what every rank holds from pass to pass.
  // For a candidate that `evaluate` finds feasible. COST some 100 us and 20 ns a slot.
  Refined refine(const Candidate& candidate);
  // Why the candidate is no job, whose sizes divide (`layout`); nothing: it is one.
  std::optional<Infeasible> refused(const Candidate& candidate) const;
  // As Variants::same_job.
  bool same_job(const Bound& other, const Candidate& candidate) const;
  // The least step of any candidate of that layout.
  static Time least(const Layout& layout);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stepcast::bound
