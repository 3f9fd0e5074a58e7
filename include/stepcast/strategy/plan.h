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
};

// What data-parallel ranks of one number of micro-batches run.
struct Batch {
  int micro_batches = 1;
  schedule::Order order;
};

// The schedule that made the order.
struct ScheduleChoice {
  std::string name;           // an entry of schedule::table(); empty: the order comes from a CSV file
  schedule::Request request;  // with which its order was made
  bool by_times = false;      // its order depends on how long passes take
};

// A model's architecture.
using Model = job::Model;

struct Plan {
  job::Job job;  // what is not converted yet reads it; it goes
  // Facts.
  Model model;                          // with the padded vocabulary
  hardware::Cluster cluster;            // nodes, devices and their faults
  job::Nccl nccl;                       // what the user forces of the collective library
  std::vector<std::int64_t> documents;  // packed into one sequence in turn; empty: one
  std::int64_t micro_batch = 1;         // sequences of one micro-batch, of a data-parallel rank
  Sharding sharding = Sharding::none;   // as the job asks for it, however many ranks there are
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
  int micro_batches = 1;  // per data-parallel rank and step; of the first of `batches`, the most, where there are any
  // Where data-parallel ranks run unlike numbers of micro-batches: each number, the most first, and which of them each
  // rank runs. Else empty.
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
  // Of all data-parallel ranks in one step.
  std::int64_t all_micro_batches() const;
};

// Micro-batches of each data-parallel rank in one step, as the workload states them on this grid, or all as many.
// Infeasible where they do not fit the batch or the ranks.
std::variant<std::vector<int>, Infeasible> micro_batches_of(const job::Workload& workload, const job::Cluster& cluster,
                                                            const cluster::Grid& grid);

// The plan as the ranks of plan.batches[n] run it, which is a plan of even batches; the plan itself where there are none.
Plan of_batch(const Plan& plan, std::size_t n);

// The schedule that a job names, or the one that its chunks imply; nullptr: no such name. A CSV file is none of them.
const schedule::Entry* schedule_of(const job::Job& job);

// Which layers each rank's chunks hold, [pipeline rank][chunk]. Infeasible names the key that does not fit.
std::variant<std::vector<std::vector<Chunk>>, Infeasible> place_layers(const job::Job& job, schedule::Placement placement,
                                                                       int chunks);

// Whether forwards and backwards of interleaved 1F1B, or of a loop without stages, run in pairs, so that the tokens of one
// travel beside the compute of the other
// (--overlap-moe-expert-parallel-comm: with one more warm-up forward).
bool pairs_passes(const job::Job& job);

// Whether the schedule's order depends on how long passes take, as automatic ones do; and the order made anew for the
// times of a whole rank's passes. The plan stays as it is where that order cannot be made.
bool orders_by_times(const Plan& plan);
std::optional<Infeasible> order_by_times(Plan& plan, const schedule::Times& times);

// The vocabulary as the job's system pads it for so many tensor ranks.
std::int64_t padded_vocab(const job::Job& job, int tensor);

// Fills the plan's facts and policies from a job. They follow from the job and from the plan's grid, shard, style, order,
// vocabulary, data_comm and shard_ranks, which stand before.
void set_policies(const job::Job& job, Plan& plan);

// Checks divisibility and picks what the job leaves open. Infeasible names the job's key at fault.
std::variant<Plan, Infeasible> resolve(const job::Job& job);

// Ranks that share one copy of the experts' states: as many as share the dense ones, as far as ranks hold the same
// experts.
int expert_shards(const Plan& plan);

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
