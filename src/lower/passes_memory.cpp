// The tensors of a unit's passes: what its graph does not know (unit_memory.h).
#include <algorithm>
#include <set>

#include "pass_builder.h"

namespace stepcast::lower {

using model::Operator;
using model::OpKind;
using model::TensorRole;

// Whether what the operator reads runs again in the backward pass.
bool PassBuilder::input_made_again(const Operator& op) const {
  const std::set<std::uint32_t> again = made_again(graph_, redone_);
  return std::any_of(op.saved.begin(), op.saved.end(), [&](const model::Saved& s) {
    return s.name == "input" && again.count(s.storage) > 0;
  });
}

// What tensor and context parallelism, narrow formats and gradient sums add around an operator.
TensorRules PassBuilder::tensor_rules(std::size_t i) const {
  const Operator& op = graph_.operators[i];
  TensorRules out;
  out.forward = context_temporary(op, false);
  out.kept = context_kept(op);
  out.input_grad = context_temporary(op, true);
  out.cast = quantised(op);
  out.share = operand_width(op) / width_;
  if (tensor_ > 1 && sequence_parallel_ && !gridded_) {
    const bool row = op.tensor == TensorRole::row || op.tensor == TensorRole::vocab_embedding;
    out.scattered = row ? tensor_ : 1;
    if (op.gemm) {
      // Gathered before a column product; a row product's sum before it is scattered, and its
      // gradient gathered. Back, the gradient of the whole input before it is scattered, and the
      // input gathered again for the weight gradient.
      const std::int64_t gathered = opens_[i] ? input_bytes(op) : 0;
      out.forward += gathered + (row ? output_bytes(op) : 0);
      out.input_grad += gathered + (row ? output_bytes(op) : 0);
      if (!keeps_gathered()) {
        out.backward += gathered;
      } else if (!input_made_again(op)) {  // its shard is counted as saved
        out.kept += gathered / tensor_ * (tensor_ - 1);
        out.forward -= gathered;
      }
    }
  }
  if (op.kind == OpKind::gemm && op.forward_kernels > 1) {
    out.input_grad += 2 * input_bytes(op);  // products of one input: their gradients and the sum
  }
  out.backward += out.input_grad;
  // The gradient that autograd hands to the parameter; with its sum fused into the product an empty
  // tensor of its size (Megatron-LM, core/tensor_parallel/layers.py: grad_weight). Units that are
  // gathered whole have gradients of their own (fully_sharded.cpp).
  if (op.gemm && plan_.job.system.family == job::System::Family::megatron && !dummy_kept(op)) {
    out.weight_gradient = static_cast<std::int64_t>(static_cast<double>(op.parameters) * width_);
  }
  return out;
}

void PassBuilder::count_memory(Passes& out) const {
  UnitOptions options;
  options.input = out.input;
  const std::vector<Replay> again = replays(graph_, redone_);
  for (const std::uint32_t storage : made_again(graph_, redone_)) {
    const std::size_t maker = maker_of(graph_, storage).value_or(0);
    for (const Replay& replay : again) {
      if (std::find(replay.operators.begin(), replay.operators.end(), maker) !=
          replay.operators.end()) {
        options.again[storage] = replay.before;
      }
    }
  }
  options.held = kept_to_redo(graph_, redone_) + count_policy();
  for (std::size_t i = 0; i < graph_.operators.size(); ++i) {
    options.rules.push_back(tensor_rules(i));
  }
  out.memory = unit_memory(graph_, options,
                           [this](const std::string& text) { return context_.labels->id(text); });
  out.saved = out.memory.saved.bytes;
  out.weight_inputs = out.memory.weight_inputs.bytes;
  out.output_gradients = out.memory.output_gradients.bytes;
  out.remade = out.memory.remade.bytes;
  out.remade_inputs = out.memory.remade_inputs.bytes;
  for (const Operator& op : graph_.operators) {
    if (dummy_kept(op)) {
      out.summed.push_back(*op.gemm);
    }
  }
}

// Transformer Engine's linears return one empty gradient for each shape of weight; the output
// projection is Megatron-LM's own.
bool PassBuilder::dummy_kept(const Operator& op) const {
  const auto& job = plan_.job;
  return job.system.transformer_engine && job.system.gradient_accumulation_fusion && op.gemm &&
         op.parameters > 0 && op.kind != OpKind::router && op.module != model::Module::head;
}

}  // namespace stepcast::lower
