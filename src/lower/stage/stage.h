// One pipeline stage's program on one kind of device.
#pragma once

#include <span>

#include "../passes/passes.h"
#include "../pipeline/order_times.h"
#include "builder.h"
#include "stepcast/lower/lower.h"
#include "stepcast/strategy/rotor.h"

namespace stepcast::lower {

// Roles of channels, the same in every program; a role that a stage does not use stays unresolved.
// "Up": chunks whose stages run from the last rank to the first (vee's odd chunks, the second
// replica of a bidirectional pipeline); their messages have channels of their own, since a channel
// pairs in order.
enum ChannelRole : std::uint32_t {
  kSendForward,
  kReceiveForward,
  kSendBackward,
  kReceiveBackward,
  kSendForwardUp,
  kReceiveForwardUp,
  kSendBackwardUp,
  kReceiveBackwardUp,
  kSendContext,  // to the next rank of the context ring
  kReceiveContext,
  kSendTensor,  // to the next rank of the tensor ring
  kReceiveTensor,
  kChannelRoles
};

// A forward pass that runs again before a unit's backward pass, and what it keeps.
struct Again {
  std::size_t unit = 0;
  strategy::ChainStep::Kind keeps = strategy::ChainStep::Kind::keep_all;
};

// A unit of the model on this stage: what FSDP wraps and what recomputation redoes.
struct Unit {
  enum class Kind { embedding, layer, head } kind = Kind::layer;
  int chunk = 0;
  int layer = 0;  // of the model
  const Passes* passes = nullptr;
  bool recomputed = false;        // its forward runs again in the backward pass
  bool keeps_input = false;       // first of a recomputed group
  std::vector<Again> again = {};  // before its backward pass
  const Passes* whole = nullptr;  // a layer's passes for micro-batches that keep all
};

// Forward passes that run again, by chunk.
using ChainOrders = std::vector<std::vector<strategy::ChainStep>>;

struct StageContext {
  const strategy::Plan* plan = nullptr;
  const hardware::Device* device = nullptr;
  PassContext passes;
  const std::map<model::LayerKind, model::OperatorGraph>* layers = nullptr;
  const model::OperatorGraph* embedding = nullptr;
  const model::OperatorGraph* head = nullptr;
  const OrderTimes* times = nullptr;
  Blends* blends = nullptr;
  std::uint8_t slowdown_row = 1;
  std::size_t most_tasks = kMostTasks;          // of the program
  std::span<const FeatureEntry> features = {};  // empty: all (feature_list.h)
  const program::Program* like = nullptr;       // lowered before: room is made for as much
};

// Throws TooLarge where states fall into more pieces than a program holds tasks. `key`: states the
// size of a piece.
void check_pieces(const StageContext& context, double pieces, const char* key);

// `found`: what recomputation comes to in this program.
program::Program lower_stage(const StageContext& context, int stage, Recomputed& found);

// Bytes of the largest pipeline message between neighbouring stages, one tensor rank, and of that
// into a (virtual) stage.
std::int64_t message_bytes(const strategy::Plan& plan);
std::int64_t message_bytes_at(const strategy::Plan& plan, int stage);
// Of the gradients that come back, which each tensor rank may send whole.
std::int64_t gradient_message_bytes(const strategy::Plan& plan);
std::int64_t gradient_message_bytes_at(const strategy::Plan& plan, int stage);

}  // namespace stepcast::lower
