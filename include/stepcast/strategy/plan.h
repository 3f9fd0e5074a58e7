// The resolved plan: which rank does what, by rule. No files, no times.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/cluster/topology.h"
#include "stepcast/hardware/hardware.h"
#include "stepcast/job/job.h"
#include "stepcast/model/operators.h"
#include "stepcast/schedule/schedule.h"
#include "stepcast/strategy/policies.h"

namespace stepcast::strategy {

// A model chunk (virtual stage): consecutive layers, with the embedding before the first and the
// head after the last.
struct Chunk {
  int first_layer = 0;
  int layers = 0;
  bool embedding = false;
  bool head = false;
  int stage = 0;  // global, in model order
  int ahead = 0;  // layers of the rank's chunks before this one
  bool operator==(const Chunk&) const = default;
};

// What data-parallel ranks with equal numbers of micro-batches run.
struct Batch {
  int micro_batches = 1;
  schedule::Order order;
  bool operator==(const Batch&) const = default;
};

// The schedule that made the order.
struct ScheduleChoice {
  std::string name;           // an entry of schedule::table(); empty: the order comes from a CSV file
  schedule::Request request;  // with which its order was made
  bool by_times = false;      // its order depends on how long passes take
  bool operator==(const ScheduleChoice&) const = default;
};

// A model's architecture.
using Model = job::Model;

struct Plan {
  // Facts.
  Model model;                          // with the padded vocabulary
  hardware::Cluster cluster;            // nodes, devices and their faults
  job::Nccl nccl;                       // what the user forces of the collective library
  std::vector<std::int64_t> documents;  // lengths, packed into one sequence; empty: one document
  std::int64_t micro_batch = 1;         // sequences of one micro-batch, of a data-parallel rank
  Sharding sharding = Sharding::none;   // as the job states it, even for a single rank
  // Policies.
  Precision precision;
  GradientAccumulation accumulation;
  GradientSync gradient_sync;
  ParameterGather parameter_gather;
  StateLayout state_layout;
  OptimizerStep optimizer_step;
  Recompute recompute;
  Offload offload;
  StageTransport stage_transport;
  ExpertDispatch expert_dispatch;
  ContextExchange context_exchange;
  TensorParallel tensor_parallel;
  LossForm loss_form;
  HostModel host;
  DeviceMemory device_memory;
  ScheduleChoice schedule;
  // Sizes and places.
  cluster::Grid grid;
  int micro_batches = 1;  // per data-parallel rank and step; with `batches`: those of the first, which are the most
  // If data-parallel ranks run different numbers of micro-batches: each number, the largest first, and the index of each
  // rank's number. Else empty.
  std::vector<Batch> batches;
  std::vector<int> batch_of;
  int shard_ranks = 1;  // ranks that share one copy of what is sharded, of data x context
  int replicas = 1;     // data x context / shard_ranks: HSDP's outer group
  int expert_data = 1;  // ranks that hold the same experts: tensor x context x data / (expert x expert_tensor)
  DataComm data_comm = DataComm::none;
  schedule::Order order;
  bool interleaved = false;
  bool vocabulary_split = false;           // embedding and head over all pipeline ranks
  std::vector<std::vector<Chunk>> stages;  // [pipeline rank][chunk]
  model::Shard shard;
  model::Style style;
  std::int64_t vocab = 0;  // as padded for tensor parallelism

  int stages_count() const { return grid.pipeline; }
  // Ranks among which dense gradients are reduced.
  int data_ranks() const { return grid.data * grid.context; }
  // Micro-batches of all data-parallel ranks in one step.
  std::int64_t all_micro_batches() const;
  bool operator==(const Plan&) const = default;
};

// Micro-batches of each data-parallel rank in one step, as the workload states them on this grid, or else equal numbers.
// Infeasible where they do not match the batch or the ranks.
std::variant<std::vector<int>, Infeasible> micro_batches_of(const job::Workload& workload, const job::Cluster& cluster,
                                                            const cluster::Grid& grid);

// The plan of the ranks of plan.batches[n], in which all batches are even; the plan itself if it has no batches.
Plan of_batch(const Plan& plan, std::size_t n);

// The schedule that a job names, or the one that its chunks imply; nullptr: an unknown name, or a CSV file.
const schedule::Entry* schedule_of(const job::Job& job);
// Micro-batches of a virtual-pipeline group.
int group_of(const job::Job& job, int micro_batches);

// The layers of each rank's chunks, [pipeline rank][chunk]. Infeasible names the key at fault.
std::variant<std::vector<std::vector<Chunk>>, Infeasible> place_layers(const job::Job& job, schedule::Placement placement,
                                                                       int chunks);

// Whether forward and backward passes of interleaved 1F1B, or of a loop without stages, run in pairs, so that the expert
// all-to-all of one overlaps the compute of the other
// (--overlap-moe-expert-parallel-comm: with one more warm-up forward).
bool pairs_passes(const job::Job& job);

// Whether the schedule's order depends on how long passes take, as that of automatic schedules does; and a new order for
// the times of a whole rank's passes. The plan is unchanged if that order cannot be made.
bool orders_by_times(const Plan& plan);
std::optional<Infeasible> order_by_times(Plan& plan, const schedule::Times& times);

// The vocabulary as the job's system pads it for this number of tensor ranks.
std::int64_t padded_vocab(const job::Job& job, int tensor);

// Fills the plan's facts and policies from a job. They follow from the job and from the plan's grid, shard, style, order,
// vocabulary, data_comm and shard_ranks, which must be set before.
void set_policies(const job::Job& job, Plan& plan);

// Checks divisibility and picks what the job leaves open. Infeasible names the job's key at fault.
std::variant<Plan, Infeasible> resolve(const job::Job& job);

// Ranks that share one copy of the experts' states: as many as share the dense states, but no more than hold the same
// experts.
int expert_shards(const Plan& plan);
// The same from its parts. `one_copy`: all data-parallel ranks share one copy of the states.
int expert_shards(int expert_data, int shards, bool one_copy);

// What a job asks of its training system, by the names that System::cannot uses: data, zero1, zero2, zero3, hsdp, zeropp,
// tensor, tensor_2d, sequence, context, ulysses, expert, expert_tensor, pipeline, virtual_pipeline, the schedule's name,
// vocabulary, tensor_overlap, finetune. `key`: the job's key that asks for it.
struct Feature {
  std::string name;
  std::string key;
};
std::vector<Feature> features(const job::Job& job);

// Elements of a bucket (GradientSync::bucket_elements).
std::int64_t bucket_elements(const Plan& plan);

}  // namespace stepcast::strategy
