// Jobs that differ from a base job in what a search varies: the parts of their plans that bounds need, without resolving
// each job.
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
  // The fields below do not affect a layout.
  const StatedOffload* offload = nullptr;  // nullptr: the base job's
  bool grad_reduce = true;                 // gradient reduction overlaps compute
  bool param_gather = false;
  bool pipeline_overlap = false;

  int expert_tensor_ranks() const { return expert_tensor > 0 ? expert_tensor : tensor; }
};

Candidate candidate_of(const Plan& plan);

// The layers of each pipeline rank and chunk, and properties of the schedule that bounds depend on.
struct Placed {
  std::vector<std::vector<Chunk>> stages;  // empty: the layers do not divide
  int chunks = 1;                          // per rank
  bool bidirectional = false;
  // Ranks start and end one after the other: no backward pass defers its weight gradients, no vocabulary passes take work
  // from the first and last stage, and the next step waits for the end of this one.
  bool ramps = false;
  bool splits_vocabulary = false;
  bool pairs = false;
};

// Over how many ranks the states of a candidate are sharded.
struct StateSharing {
  Sharding stated = Sharding::none;
  bool stages = false;             // with pipeline stages
  DataComm comm = DataComm::none;  // none where there is nobody to share with
  int shards = 1;                  // ranks that share one copy
  int expert_shards = 1;           // of the experts
};

class Variants {
 public:
  // Implicit conversion from the base job.
  Variants(const job::Job& base);

  // Facts and policies that no candidate changes. It has no routing, order or stages, since the base's own sizes need not
  // divide.
  const Plan& base() const { return base_plan_; }
  // The same for candidates that share their states so.
  Plan base(const StateSharing& sharing) const;
  const StatedOffload& offload() const { return base_.memory.offload; }

  // Largest number of micro-batches of a data-parallel rank. 0: sizes do not divide ranks, heads, experts or the batch.
  std::int64_t most_micro_batches(const Candidate& candidate) const;
  StateSharing sharing(const Candidate& candidate) const;
  // How gradients and parameters of sharded units travel; none where units are whole, or shared with
  // no other rank nor with the host.
  DataComm unit_comm(const Candidate& candidate) const;
  // As GradientSync::accumulates_whole.
  bool accumulates_whole(const Candidate& candidate) const;
  // Whether sharded units take the host longer than whole ones.
  bool hosts_units() const { return base_.system.unit_overhead > Time{0}; }
  // Depends only on the candidate's pipeline and virtual_pipeline.
  Placed place(const Candidate& candidate) const;
  // A plan without order and stages, for the costs of single units.
  Plan layout(const Candidate& candidate, std::int64_t micro_batches) const;
  std::variant<Plan, Infeasible> resolve(const Candidate& candidate) const;
  // Whether a candidate is the same job for `other`, whose base job differs in its schedule and its order of ranks alone:
  // one stage runs no schedule.
  bool same_job(const Variants& other, const Candidate& candidate) const;

 private:
  cluster::Grid grid_of(const Candidate& candidate) const;
  Plan sizes(const Candidate& candidate, DataComm comm, bool with_routing) const;

  job::Job base_;
  Plan base_plan_;
};

}  // namespace stepcast::strategy
