// A unit's tensors in each of its passes, as an autograd engine makes and frees them.
//
// LAW  forward: an operator's result lives until its last reader has run, or is kept; what only it
//      needs lives while it runs. Backward, in reverse: a gradient lives from the first operator
//      that adds to it to the one that takes it; a second contribution is summed out of place; a
//      kept tensor is freed behind the last operator that reads it; an operator that hands its
//      gradient on unchanged (a residual add) makes none.
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

// Tensors with their places (program::Block). `bytes`: of kept ones the sum of whole blocks, of a
// pass's temporaries what they add at most to what is counted beside them.
struct TensorList {
  std::vector<program::Block> blocks;
  std::int64_t bytes = 0;
};

struct UnitMemory {
  TensorList saved;          // from F to B: both of
  TensorList kept;           // from F to I
  TensorList weight_inputs;  // what products of weight gradients read, to W
  TensorList saved_again;    // `saved` and `kept` of a unit that runs again from its input
  TensorList kept_again;
  TensorList remade;  // by operators that run again, in the backward pass (a part of its
                      // temporaries), and of that what weight gradients read
  TensorList remade_inputs;
  TensorList output_gradients;  // and made by I for them
  TensorList forward;           // temporaries beside what is kept
  TensorList unkept;            // of a forward pass that keeps nothing: every tensor of it
  TensorList backward, input_grad, weight_grad;
};

// What surrounds an operator that its graph does not know: tensor and context parallelism, formats,
// how the framework sums weight gradients.
struct TensorRules {
  std::int64_t forward = 0;          // bytes that live while it runs, beside its own
  std::int64_t backward = 0;         // with the weight gradient
  std::int64_t input_grad = 0;       // without
  std::int64_t weight_gradient = 0;  // bytes of one that is given up behind it
  std::int64_t kept = 0;             // bytes that it keeps beside what it saves
  int scattered = 1;                 // its result is cut into so many parts, of which one stays
  bool cast = false;                 // of what it reads as a product a copy is kept
  double share = 1;                  // the copy's bytes over the tensor's
};

// `rules`: by operator. `input`: bytes of the unit's input. `again`: storages that are made again
// instead of kept, and the operator before whose backward they are. `retained`: kept tensors live
// on to the end of the backward pass (retain_graph). Labels become numbers by `label`.
struct UnitOptions {
  std::vector<TensorRules> rules;
  std::int64_t input = 0;
  std::map<std::uint32_t, std::size_t> again;
  std::int64_t held = 0;  // bytes that are kept so that operators can run again
  bool retained = false;
};
using LabelOf = std::function<std::uint32_t(const std::string&)>;
UnitMemory unit_memory(const model::OperatorGraph& graph, const UnitOptions& options, const LabelOf& label);

// What the tensors of one pass add at most to `counted` bytes that are taken to stand throughout:
// the sum of all that live at once, less `counted`; not below zero. A block lives from before
// operator `begin` to behind operator `end`.
std::int64_t peak_beside(const std::vector<program::Block>& blocks, std::int64_t counted);

}  // namespace stepcast::lower
