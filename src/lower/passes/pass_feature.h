// A feature of a unit's passes: what one kind of parallelism, number format or training system's
// habit adds around operators, or does in their place.
//
// Features stand in an explicit array (pass_features.cpp). Before an operator they are asked from
// the first to the last, behind it from the last to the first. Each writes items to its PassState.
// To add one: a .cpp with a class that answers some of these hooks, a `make_` here, a line in the
// array, and a test in tests/unit/lower.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "pass_state.h"

namespace stepcast::lower {

// Operators are named by their index in the unit's graph.
class PassFeature {
 public:
  virtual ~PassFeature() = default;

  // Around an operator of the forward pass, whether it runs for the first time or again.
  virtual void before_forward(std::size_t) {}
  virtual void after_forward(std::size_t) {}

  // Around an operator of the backward pass, and inside it around the two gradients of an operator
  // that has weights.
  virtual void before_backward(std::size_t) {}
  virtual void before_input_grad(std::size_t) {}
  virtual void after_input_grad(std::size_t) {}
  virtual void after_weight_grad(std::size_t) {}
  virtual void after_backward(std::size_t) {}

  // In place of the operator's own kernels of one part. True: the feature wrote what runs instead.
  virtual bool in_place_of(std::size_t, cost::Layout) { return false; }
  // In place of the operator's whole backward pass; before_backward and after_backward still add
  // theirs.
  virtual bool in_place_of_backward(std::size_t) { return false; }

  // Bytes around the operator beside those that the graph states (unit_memory.h).
  virtual void add_memory(std::size_t, TensorRules&) const {}
  // Bytes of the feature's collectives that a recomputation policy keeps: under a policy that
  // chooses operators, results of collectives are not made again.
  virtual std::int64_t kept_result(std::size_t) const { return 0; }
};

using PassFeatures = std::vector<std::unique_ptr<PassFeature>>;

// Each feature that the state's plan uses, in order.
PassFeatures make_features(PassState& state);

// One feature each; nullptr where the plan does not use it. `state` outlives the feature.
using MakeFeature = std::unique_ptr<PassFeature>(PassState& state);
MakeFeature make_graphs;            // modules that are launched as CUDA graphs: passes_graphs.cpp
MakeFeature make_expert_exchange;   // tokens to their experts and back: passes_expert.cpp
MakeFeature make_casts;             // operands of products in 8 and 4 bits: passes_quantise.cpp
MakeFeature make_linear_casts;      // the same by torchao: passes_linear_casts.cpp
MakeFeature make_attention_casts;   // attention in 8 bits: passes_attention_casts.cpp
MakeFeature make_tensor;            // tensor parallelism in one dimension: passes_tensor.cpp
MakeFeature make_tensor_chunks;     // its products in chunks: passes_tensor_chunks.cpp
MakeFeature make_tensor_grid;       // in two and three dimensions: passes_tensor_grid.cpp
MakeFeature make_context_exchange;  // attention over context ranks: passes_context.cpp
MakeFeature make_sequence_trade;  // mixers along the sequence over context ranks: passes_trade.cpp
MakeFeature make_tiles;           // linears in tiles: passes_tiles.cpp
MakeFeature make_loss;            // the loss over tensor ranks: passes_loss.cpp

}  // namespace stepcast::lower
