// The jobs that differ from one job in what a search varies: what bounds add up of them without resolving each.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::strategy {

// What a job states about recomputation and offloading.
using StatedRecompute = job::Recompute;
using StatedOffload = job::Offload;
using StatedOffloadPart = job::OffloadPart;

// What a search varies; the rest is the base job's.
struct Candidate {
  int tensor = 1;
  int pipeline = 1;
  int virtual_pipeline = 1;
  int data = 1;
  std::int64_t micro_batch = 1;
  bool sequence_parallel = false;
  Sharding sharding = Sharding::none;
  StatedRecompute recompute;
  int context = 1;
  int expert_tensor = 0;  // 0: as many as tensor
  TensorOverlap tensor_overlap = TensorOverlap::none;
  // From here on: what a layout does not depend on.
  const StatedOffload* offload = nullptr;  // nullptr: the base job's
  bool grad_reduce = true;                 // gradients travel beside compute
  bool param_gather = false;
  bool pipeline_overlap = false;

  int expert_tensor_ranks() const { return expert_tensor > 0 ? expert_tensor : tensor; }
};

Candidate candidate_of(const Plan& plan);

// How gradients and parameters of sharded units travel; none where units are whole.
DataComm unit_comm(Sharding sharding);

// Where layers lie, by pipeline ranks and chunks, and what their schedule allows to add up.
struct Placed {
  std::vector<std::vector<Chunk>> stages;  // empty: they do not divide so
  int chunks = 1;                          // of a rank
  bool bidirectional = false;
  // Ranks begin one after the other and end so: no split backward pass that leaves weight gradients to the end, no
  // vocabulary passes that move the ends' work, and the next step waits for this one's end.
  bool ramps = false;
  bool splits_vocabulary = false;
  bool pairs = false;
};

// Who shares the states of a candidate.
struct StateSharing {
  DataComm comm = DataComm::none;
  int shards = 1;         // ranks that share one copy
  int expert_shards = 1;  // of the experts
};

class Variants {
 public:
  // Implicit: a job stands for all that differ from it.
  Variants(const job::Job& base);

  // Facts and policies that no candidate changes, without routing, order and stages: the base's own sizes need not divide.
  const Plan& base() const { return base_plan_; }
  const StatedOffload& offload() const { return base_.memory.offload; }

  // Micro-batches of the data-parallel rank with the most. 0: sizes do not divide ranks, heads, experts or the batch.
  std::int64_t most_micro_batches(const Candidate& candidate) const;
  StateSharing sharing(const Candidate& candidate) const;
  // By the candidate's pipeline and virtual_pipeline alone.
  Placed place(const Candidate& candidate) const;
  // A plan without order and stages, for what its units cost one by one.
  Plan layout(const Candidate& candidate, std::int64_t micro_batches) const;
  std::variant<Plan, Infeasible> resolve(const Candidate& candidate) const;

 private:
  Plan sizes(const Candidate& candidate, bool with_routing) const;

  job::Job base_;
  Plan base_plan_;
};

}  // namespace stepcast::strategy
