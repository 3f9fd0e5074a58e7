// What the features of a stage share while it is lowered: plain data, and the few functions that
// most of them call. What belongs to one feature alone is a member of that feature.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "../data/data_parallel.h"
#include "../data/sharded_units.h"
#include "builder.h"
#include "stage.h"
#include "stepcast/lower/unit_memory.h"

namespace stepcast::lower {

class Feature;

inline std::int64_t whole_blocks(double bytes) {
  return whole_blocks(static_cast<std::int64_t>(bytes));
}

// Host time.
struct HostPace {
  Time launch{0};    // of one kernel
  Time overhead{0};  // of a layer and pass, beside its launches
  Time paced{0};     // of a launch of the pass under way, with its share of `overhead`
};

// Streams of the device that several features use; 0, the compute stream, where there is none.
struct Streams {
  program::StreamIndex compute;
  program::StreamIndex tensor;
  program::StreamIndex tensor_column;
  program::StreamIndex context;
  program::StreamIndex expert;
  program::StreamIndex data;      // gradients; of units reduced whole: reduce-scatter
  program::StreamIndex gather;    // of units gathered whole: all-gather
  program::StreamIndex replicas;  // hybrid sharding: all-reduce between copies
  program::StreamIndex ticks;     // the host thread at whose ticks gradients leave (Horovod)
  std::uint32_t ring_key = 0;     // ring steps in program order: a mispairing is a detected fault
};

// Streams of copies to and from the host and its drives, and of its CPUs; the compute stream where
// copies do not overlap.
struct HostStreams {
  program::StreamIndex to_device = 0;
  program::StreamIndex to_host = 0;
  program::StreamIndex nvme_read = 0;
  program::StreamIndex nvme_write = 0;
  program::StreamIndex cpu = 0;
  std::uint32_t awaited = 0;  // bit mask of streams that wait for the step before
};

// Buffers of a unit and micro-batch between its passes.
struct Kept {
  program::BufferIndex activations = program::kNone;  // until I
  program::BufferIndex recomputed = program::kNone;   // until I
  program::BufferIndex result = program::kNone;       // of what runs again, until I
  program::BufferIndex inputs = program::kNone;     // of products whose weight gradient comes apart
  program::BufferIndex gradients = program::kNone;  // of those products' outputs
  program::BufferIndex remade_inputs = program::kNone;  // of products that run again, until W
  // The parts of `activations` and `inputs` that travel to the host: their bytes, which
  // activation_offload.cpp sets before the step; their device buffers; and a bit mask of other
  // streams that use these.
  std::int64_t moved_bytes = 0;
  std::int64_t moved_input_bytes = 0;
  program::BufferIndex moved = program::kNone;
  program::BufferIndex moved_inputs = program::kNone;
  std::uint32_t moved_users = 0;
};

// Passes of a chunk. "Backward": those that make weight gradients, B and W.
struct Turns {
  int forwards_begun = 0;
  int backwards_ended = 0;
  int backwards = 0;  // of a step
};

// What a list of items comes to: the same whenever it is replayed.
struct Replayed {
  Time paced{0};
  std::optional<Builder> tasks;  // none: features have a hand in it
  std::uint32_t ring_keys = 0;   // that they take, from 0 on
};

struct UnitPasses {
  std::deque<Passes> priced;  // owned, merged; units point here
  std::unordered_map<const std::vector<Item>*, Replayed> replayed;  // lists of `priced`
  std::vector<std::vector<std::vector<Kept>>> kept;                 // [chunk][unit][micro-batch]
  std::vector<Turns> turns;                                         // by chunk
  bool splits = false;                                              // this rank runs I and W
  std::vector<program::BufferIndex> buffers;  // of what units keep and make in their passes
};

// What runs again.
struct RunAgain {
  std::vector<std::vector<Unit>> whole;        // by chunk: units for micro-batches that keep all
  std::vector<std::vector<bool>> keeps_whole;  // [chunk][micro-batch]; empty: none keeps all
  ChainOrders orders;                          // of optimal recomputation
  double flops = 0;                            // of products and attention, so far
};

// Of a table that both ends of a chunk read; empty lists: of none (data/table_gradients.h).
struct TableGradients {
  TensorList waiting;  // the projection's, until the embedding's is added to it
  TensorList kept;     // the same where it stays
  TensorList added;    // the embedding's, until it is added
  TensorList beside;   // of other weights of the embedding's unit
  bool apart = false;  // the sum is a third tensor
};

// Gradients of trained parameters on their way from the backward pass to the optimizer.
struct Gradients {
  std::vector<Elements> pending;              // by chunk: waiting for their bucket
  std::array<int, 2> arrays = {};             // in a bucket of sharded units: dense ones, experts'
  std::vector<program::BufferIndex> buffers;  // released when gradients are set to none
  std::vector<TableGradients> tables;         // by chunk
  std::int64_t held = 0;                      // bytes that stand between steps
};

// Of each hook of a feature, by its number (feature.h), the features that answer it: found when it
// is called first.
struct Listeners {
  static constexpr std::size_t kMostHooks = 32;
  std::array<std::optional<std::vector<Feature*>>, kMostHooks> of;
  bool left_out = false;  // by the feature that was called last
};

// One pipeline stage on its way to a program.
struct Stage {
  const StageContext& context;
  const strategy::Plan& plan;
  int number = 0;  // rank of the pipeline
  Builder builder = {};
  HostPace host = {};
  Streams streams = {};
  HostStreams host_streams = {};
  std::vector<std::vector<Unit>> units = {};  // by chunk
  UnitPasses passes = {};
  RunAgain again = {};
  Parameters parameters = {};
  Gradients gradients = {};
  ShardedUnits sharded = {};
  std::vector<std::unique_ptr<Feature>> features = {};  // in the array's order
  Listeners listeners = {};
};

// The order of passes on this rank of the pipeline.
inline const std::vector<schedule::Slot>& slots_of(const Stage& stage) {
  return stage.plan.order.ranks[static_cast<std::size_t>(stage.number)];
}

// ---------------------------------------------------------------- units
// The units as a micro-batch runs them.
const std::vector<Unit>& units_of(const Stage& stage, int chunk, int micro_batch);
// Bytes that a unit keeps between its passes, and of these what only the weight gradient reads.
std::int64_t kept_bytes(const Unit& unit);
std::int64_t weight_inputs(const Stage& stage, const Unit& unit);
// One table serves both ends of the model: where they are on one rank it stands once.
bool shares_table(const Stage& stage);
// The projection of a chunk whose embedding shares its table, so that the table's gradient waits
// for the embedding's backward pass.
bool waits_for_embedding(const Stage& stage, int chunk, std::size_t unit);
// Prices a graph and keeps its passes in the stage.
Passes& add_passes(Stage& stage, const model::OperatorGraph& graph, const Redone& redone);
// The weight gradients of this unit's products wait for the end of the stage's passes
// (pipeline/deferred_head.cpp).
bool defers(const Stage& stage, int chunk, std::size_t unit, int micro_batch);
// A buffer of what units keep and make in their passes, as Builder::allocate.
template <class... Arguments>
program::BufferIndex allocate_for_unit(Stage& stage, const Arguments&... arguments) {
  const program::BufferIndex id = stage.builder.allocate(arguments...);
  if (id != program::kNone) {
    stage.passes.buffers.push_back(id);
  }
  return id;
}

// ---------------------------------------------------------------- tasks
program::LabelIndex label_of(Stage& stage, std::string_view text);
// A role's own stream: NCCL communicators of one kind of parallelism share one.
program::StreamIndex stream_of(const Stage& stage, Role role);
// `stream` waits for what the compute stream was given so far; at the start of a step, for the step
// before: a communication kernel that is posted earlier would hold SMs beside that step's end.
void follow_compute(Stage& stage, program::StreamIndex stream);
// Issues items of a pass on the compute stream and beside it: a list that stands as long as the
// stage, since every micro-batch replays it.
void replay(Stage& stage, const std::vector<Item>& items);
void pace(Stage& stage, const std::vector<Item>& items);
void issue(Stage& stage, const Item& item);
// On the compute stream. Nothing is issued for less than a byte.
void memory_kernel(Stage& stage, double bytes, cost::MemoryOp op, program::Category category,
                   const char* label, std::int64_t launches = 1);
void tensor_collective(Stage& stage, cost::Collective op, std::int64_t bytes,
                       program::Category category, const char* label);
// On any stream, for gradients and parameters between data-parallel ranks.
void data_kernel(Stage& stage, program::StreamIndex stream, double bytes, cost::MemoryOp op,
                 const char* label);
void data_collective(Stage& stage, program::StreamIndex stream, Role role, cost::Collective op,
                     double bytes, const char* what);

// ---------------------------------------------------------------- data parallelism
// Gradients or parameters travel, between any ranks or to the host.
bool travels(const Stage& stage);
// Something travels, and units are gathered and reduced whole.
bool wraps(const Stage& stage);
// The backward pass of this chunk that is under way is its last of the step.
bool last_backward(const Stage& stage, int chunk);
// Gradients are reduced behind the backward pass that is under way.
bool reduces(const Stage& stage, int chunk);

}  // namespace stepcast::lower
