// A unit's tensors in each of its passes, as an autograd engine makes and frees them.
//
// LAW  Forward: an operator's result lives until its last reader has run, or is kept; what only the operator needs lives
//      while it runs. Backward, in reverse: a gradient lives from the first operator that adds to it to the one that takes
//      it; later contributions are added to the first, out of place where that is a view; a kept tensor is freed behind the
//      last operator that reads it; an operator that hands its gradient on unchanged (a residual add) makes none.
// SOURCE  torch/csrc/autograd/engine.cpp (evaluate_function, release_variables), input_buffer.cpp
//      (accumulate); Megatron-LM core/tensor_parallel/layers.py for what a linear's passes hold.
// COST  one pass over the graph.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stepcast/model/operators.h"
#include "stepcast/program/program.h"

namespace stepcast::lower {

// Places of a pass: each operator of a unit's graph has so many, one after the other. It may stand for several of the
// framework's, and each of those makes and gives up tensors in steps (unit_tensors.h).
inline constexpr std::size_t kPlacesOfOperator = 160;
// Of the operator that runs as number `i` of a pass, its first place and its last.
constexpr std::uint16_t first_place(std::size_t i) {
  return static_cast<std::uint16_t>(i * kPlacesOfOperator < 0xfffe ? i * kPlacesOfOperator : 0xfffe);
}
constexpr std::uint16_t last_place(std::size_t i) {
  const std::size_t last = i * kPlacesOfOperator + (kPlacesOfOperator - 1);
  return static_cast<std::uint16_t>(last < 0xfffe ? last : 0xfffe);
}

// Bytes of a tensor as PyTorch's caching allocator hands them out (CUDACachingAllocator.cpp).
inline std::int64_t whole_blocks(std::int64_t bytes) { return (bytes + 511) / 512 * 512; }

// Tensors with the places between which they live (program::Block). `bytes`: for kept tensors the sum of whole blocks;
// for the temporaries of a pass the most that they add to what is counted beside them.
struct TensorList {
  std::vector<program::Block> blocks;
  std::int64_t bytes = 0;
  // Blocks that are the same tensor as one of the unit ahead in the pass, and as one of the unit behind.
  std::uint32_t taken = program::Buffer::kNoTensor;
  std::uint32_t handed = program::Buffer::kNoTensor;
  // What stands in its place in the pass that meets the unit's parameters first; empty: itself.
  std::vector<TensorList> first_time = {};
};

// Of a unit that runs again from its input, which is kept in the place of `saved` and `kept`.
struct AgainMemory {
  TensorList saved;
  TensorList kept;
  TensorList forward;   // temporaries of F that runs again
  TensorList narrowed;  // among temporaries of B: made by the unit behind, ahead of what runs again for B
  TensorList backward;  // those of B without them
};

// F is the forward pass, B the backward pass; schedules that split B run I (input gradients), then W (weight gradients).
struct UnitMemory {
  // From F to the backward pass: all of it, up to B; or its two parts, `kept` up to I and `weight_inputs`, which products
  // of weight gradients read, up to W.
  TensorList saved;
  TensorList kept;
  TensorList weight_inputs;
  // Of what operators make again in the backward pass (a part of its temporaries), what weight gradients read.
  TensorList remade_inputs;
  TensorList output_gradients;  // made by I and read by W
  TensorList gradients;         // of weights, that outlive B or W
  TensorList input;             // kept by a unit that runs again, up to its last reader in B
  TensorList unkept;            // every tensor of a forward pass that keeps nothing, but for:
  TensorList cached;            // casts of trained weights that torch.autocast holds beyond it
  // Temporaries of F, B, I and W, beside what is kept.
  TensorList forward;
  TensorList backward;
  TensorList input_grad;
  TensorList weight_grad;
  AgainMemory again;
};

// What only a piece has that stands for a part of an operator (unit_pieces.h).
struct PieceRules {
  bool copies_gradient = false;  // the gradient of the result is copied before it is used
  bool over_last = false;        // the gradient of the last value that it reads takes that value's place
  bool view = false;             // the result is no tensor of its own
  bool part = false;             // reads a part of a value, whose gradient is made where all its parts' are there
  bool leaf = false;             // reads a parameter alone; the gradient of its result is a weight's
  bool trained = false;          // that parameter takes a gradient
  std::size_t held_to = 0;       // the result is a variable of a function that returns behind this piece; 0: of none
};

// Tensors of an operator's backward pass beside its workspace.
struct Scratch {
  std::vector<std::int64_t> works = {};  // that live while it runs, made one behind the other
  std::vector<std::int64_t> whole = {};  // made ahead of them, until the weight gradient is cut out of the last
  bool behind = false;                   // the former stand once what the operator read is given up
};

// An operator's result over tensor ranks, of which a rank keeps a part.
struct Scatter {
  int parts = 1;
  std::int64_t joined = 0;  // bytes of a copy of the whole that a scatter along its second dimension makes
};

// Memory around an operator that the graph does not hold: what tensor and context parallelism, number formats and the
// framework's way of summing weight gradients add. In bytes.
struct TensorRules {
  std::int64_t forward = 0;     // lives while the operator runs, beside its own temporaries
  std::int64_t backward = 0;    // likewise in the backward pass with the weight gradient
  std::int64_t input_grad = 0;  // and without the weight gradient
  Scratch scratch = {};
  std::int64_t summed = 0;                   // input gradients of a product that stands for several, with their sum
  std::int64_t weight_gradient = 0;          // a weight gradient that is freed behind the operator
  std::vector<std::int64_t> gradients = {};  // weight gradients that outlive the pass
  std::int64_t kept = 0;                     // kept beside what the operator saves
  std::vector<double> results = {};          // shares of the result that are tensors of their own; empty: it is one
  Scatter scatter = {};
  bool gate_first = false;  // an activation: the first part of what it reads is given up, and its
                            // first tensor made, before the second part is made
  PieceRules piece = {};
  double promotion = 1;  // a rotation's results over what it reads, where its table is in fp32; likewise of a norm's
                         // product with its weight
  bool cast = false;     // a copy of a product's input is kept in place of it
  double share = 1;      // bytes of that copy over those of the input
};

// A tensor that is kept so that operators can run again: a result that nothing saves.
struct HeldTensor {
  std::size_t made = 0;  // the operator whose result it is
  std::int64_t bytes = 0;
};

// A function that runs again with all that it works with (Megatron-LM's checkpoints of modules), ahead of the backward pass
// of the operator `before`.
struct RepeatedFunction {
  std::vector<std::size_t> operators;
  std::size_t before = 0;
};

struct UnitOptions {
  std::vector<TensorRules> rules;  // by operator
  std::int64_t input = 0;          // bytes of the unit's input
  // Storages that are made again instead of kept, with the operator before whose backward pass that happens.
  std::map<std::uint32_t, std::size_t> again;
  std::vector<RepeatedFunction> functions;
  std::vector<HeldTensor> held;          // kept until the unit's backward pass is over
  std::optional<std::size_t> again_end;  // the first operator that does not run again with the unit
  std::int64_t product_workspace = 0;    // bytes of the library's scratch memory while a product runs
  // What the frames of functions hold: strategy::DeviceMemory has the same.
  bool input_gradient_first = false;
  bool layer_holds_normed_input = false;
  bool holds_projection = false;
  bool holds_gathered_gradients = false;  // I holds the gradient of a scattered sum whole, as its products read it
  bool split_keeps_graph = false;         // I gives up nothing that it read, nor gradients of what weights made
  bool retained = false;                  // kept tensors live on to the end of the backward pass (retain_graph)
};

// The number of a label.
using LabelOf = std::function<program::LabelIndex(const std::string&)>;
UnitMemory unit_memory(const model::OperatorGraph& graph, const UnitOptions& options, const LabelOf& label);

// The most that the tensors of one pass add to `counted` bytes that are taken to stand throughout: the largest sum of
// tensors that live at once, less `counted`; not below zero. A block lives from before place `begin` to behind place
// `end`.
std::int64_t peak_beside(const std::vector<program::Block>& blocks, std::int64_t counted);

}  // namespace stepcast::lower
