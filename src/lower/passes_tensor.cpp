// What tensor parallelism adds around an operator: collectives over the tensor ranks, beside the
// products they do not feed where the framework can (Megatron-LM, core/tensor_parallel/layers.py).
#include <algorithm>
#include <set>

#include "pass_builder.h"
#include "passes_loss.h"

namespace stepcast::lower {

using model::Operator;
using model::OpKind;
using model::TensorRole;
using program::Category;

// Column operators that gather their input: each distinct tensor once in a region, which a row
// operator closes. (MLA's two up-projections read two latents; three linears of one input share its
// gather.)
void PassBuilder::find_regions() {
  opens_.assign(graph_.operators.size(), false);
  std::set<std::uint32_t> gathered;
  for (std::size_t i = 0; i < graph_.operators.size(); ++i) {
    const Operator& op = graph_.operators[i];
    if (op.tensor == TensorRole::column || op.tensor == TensorRole::vocab_head) {
      const auto input = std::find_if(op.saved.begin(), op.saved.end(),
                                      [](const model::Saved& s) { return s.name == "input"; });
      opens_[i] =
          input == op.saved.end() ? gathered.empty() : gathered.insert(input->storage).second;
    } else if (op.tensor == TensorRole::row) {
      gathered.clear();
    }
  }
}

// Plain PyTorch layers of Megatron's kind have a column linear for each half of a gated MLP (Aleph-
// Alpha/scaling, ParallelSwiGLUMLP), each of which gathers the input and sums its gradient itself;
// Megatron-LM's fc1 is one linear.
int PassBuilder::linears_of(const Operator& op) const {
  return op.name == "fc1" && plan_.job.model.gated_mlp && gathers_logits(plan_) ? 2 : 1;
}

bool PassBuilder::tensor_async() const {
  return plan_.job.system.async_tensor_backward || tensor_overlap() != job::TensorOverlap::none;
}

// A DTensor's linear saves the input that it read, which is whole; Megatron-LM's and Transformer
// Engine's save their shard (torch/distributed/tensor: autograd saves local tensors as they are).
bool PassBuilder::keeps_gathered() const {
  return tensor_ > 1 && !gridded_ && sequence_parallel_ &&
         plan_.job.system.family == job::System::Family::fsdp2;
}

// A DTensor's collectives gather and scatter along the tensors' first dimension; the sequence is
// the second, so parts are joined or cut by a copy (torch/distributed/_functional_collectives.py:
// all_gather_tensor, reduce_scatter_tensor).
void PassBuilder::copy_sequence(std::int64_t bytes, const std::string& label, Items& out) {
  if (keeps_gathered()) {
    kernel(out, context_.kernels->memory(cost::MemoryOp::copy, Bytes(2 * bytes)), 1,
           Category::compute, label + " sequence copy", kMemoryBound);
  }
}

void PassBuilder::tensor_before(std::size_t i, Items& out) {
  const Operator& op = graph_.operators[i];
  const bool chunks = chunked_gather(i, cost::Layout::forward);
  if (tensor_ > 1 && !gridded_ && sequence_parallel_ && opens_[i] && !chunks) {
    for (int n = 0; n < linears_of(op); ++n) {
      collective(out, kTensor, true, cost::Collective::all_gather, input_bytes(op),
                 Category::tensor, op.name);
    }
    copy_sequence(input_bytes(op), op.name, out);
  }
  if (op.kind == OpKind::cross_entropy && gathers_logits(plan_)) {
    const auto& shard = plan_.shard;
    const std::int64_t tokens =
        shard.sequences * shard.sequence_length / std::max(1, shard.context);
    collective(out, kTensor, true, cost::Collective::all_gather, gemm_bytes(tokens, plan_.vocab, 1),
               Category::tensor, "logits");
  }
}

void PassBuilder::tensor_after(std::size_t i, Items& out) {
  const Operator& op = graph_.operators[i];
  if (tensor_ == 1 || chunked_scatter(i, cost::Layout::forward)) {
    return;
  }
  if (gridded_) {
    grid_around(i, false, out);
    return;
  }
  if (op.tensor == TensorRole::row || op.tensor == TensorRole::vocab_embedding) {
    copy_sequence(output_bytes(op), op.name, out);
    collective(out, kTensor, true,
               sequence_parallel_ ? cost::Collective::reduce_scatter : cost::Collective::all_reduce,
               output_bytes(op), Category::tensor, op.name);
  }
  if (op.kind == OpKind::cross_entropy && !gathers_logits(plan_)) {
    // Vocab-parallel loss: maximum, predicted logit and sum of exponentials, one fp32 a token each.
    const std::int64_t bytes =
        4 * plan_.shard.sequences * plan_.shard.sequence_length / std::max(1, plan_.shard.context);
    for (int n = 0; n < 3; ++n) {
      collective(out, kTensor, true, cost::Collective::all_reduce, bytes, Category::tensor,
                 op.name);
    }
  }
}

void PassBuilder::tensor_before_backward(std::size_t i, Items& out) {
  const Operator& op = graph_.operators[i];
  if (gridded_) {
    grid_around(i, true, out);
    return;
  }
  const bool closes = tensor_ > 1 &&
                      (op.tensor == TensorRole::row || op.tensor == TensorRole::vocab_embedding) &&
                      !chunked_gather(i, cost::Layout::input_grad);
  if (closes && sequence_parallel_) {
    collective(out, kTensor, true, cost::Collective::all_gather, output_bytes(op), Category::tensor,
               op.name + " grad");
    copy_sequence(output_bytes(op), op.name + " grad", out);
  }
}

// The saved input is a shard: gathered again for the weight gradient, beside the input gradient's
// product.
void PassBuilder::tensor_before_dgrad(std::size_t i, Items& out) {
  const Operator& op = graph_.operators[i];
  if (tensor_ > 1 && !gridded_ && sequence_parallel_ && opens_[i] && !keeps_gathered()) {
    collective(out, kTensor, !tensor_async(), cost::Collective::all_gather, input_bytes(op),
               Category::tensor, op.name + " input");
  }
}

void PassBuilder::tensor_between(std::size_t i, Items& out) {
  const Operator& op = graph_.operators[i];
  if (tensor_ == 1 || gridded_ || !opens_[i] || !tensor_async()) {
    return;
  }
  if (chunked_scatter(i, cost::Layout::input_grad)) {
    return;  // the input came before the sums, which are made
  }
  if (sequence_parallel_ && !keeps_gathered()) {
    join(out, kTensor);
  }
  copy_sequence(input_bytes(op), op.name + " dgrad", out);
  collective(out, kTensor, false,
             sequence_parallel_ ? cost::Collective::reduce_scatter : cost::Collective::all_reduce,
             input_bytes(op), Category::tensor, op.name + " dgrad");
}

void PassBuilder::tensor_after_wgrad(std::size_t i, Items& out) {
  const Operator& op = graph_.operators[i];
  if (tensor_ == 1 || gridded_ || !opens_[i] || chunked_scatter(i, cost::Layout::input_grad)) {
    return;
  }
  if (tensor_async()) {
    join(out, kTensor);
  } else {
    copy_sequence(input_bytes(op), op.name + " dgrad", out);
    for (int n = 0; n < linears_of(op); ++n) {
      collective(
          out, kTensor, true,
          sequence_parallel_ ? cost::Collective::reduce_scatter : cost::Collective::all_reduce,
          input_bytes(op), Category::tensor, op.name + " dgrad");
    }
  }
}

}  // namespace stepcast::lower
