// Dispatch of tokens to experts and their return, by dispatcher (Megatron-LM,
// core/transformer/moe/token_dispatcher.py): all-gather: tokens of all expert-tensor and expert
// ranks are brought together, each rank picks its experts'; all-to-all: copies travel to their
// expert's ranks, which then share them with its expert-tensor ranks; DeepEP and HybridEP: tokens
// travel once to every node and rank that wants them.
#include "pass_builder.h"

namespace stepcast::lower {

using Dispatcher = job::MoeRuntime::Dispatcher;
using cost::Collective;
using model::ExpertRole;
using program::Category;

// To the experts: towards them in the forward pass, gradients back to them in the backward pass.
void PassBuilder::to_experts(const Operator& op, bool gradients, Items& out) {
  const std::string label = op.name + (gradients ? " grad" : "");
  const auto wide = [&](std::int64_t rows) {
    return static_cast<std::int64_t>(static_cast<double>(rows * plan_.job.model.hidden) * width_);
  };
  if (dispatcher_ == Dispatcher::allgather) {
    if (rows_.gathered == rows_.tokens) {  // alone, or all hold the same tokens
      return;
    }
    if (!gradients) {  // router's choice of every token: a probability and a map byte an expert
      collective(out, kTensorExpert, true, Collective::all_gather,
                 rows_.gathered * rows_.experts * 5, Category::expert, label + " routing");
    }
    collective(out, kTensorExpert, true, Collective::all_gather, wide(rows_.gathered),
               Category::expert, label);
    return;
  }
  if (plan_.shard.expert > 1) {
    if (!sends_copies()) {
      send_tokens(out, label);
    } else {
      exchange(out, wide(std::max(rows_.sent, rows_.received)), label);
    }
    if (!gradients && dispatcher_ == Dispatcher::alltoall) {  // probabilities, fp32
      exchange(out, 4 * std::max(rows_.sent, rows_.received), label + " probabilities");
    }
  }
  if (plan_.shard.expert_tensor > 1 && rows_.computed > rows_.received) {
    collective(out, kExpertTensor, true, Collective::all_gather, wide(rows_.computed),
               Category::expert, label);
  }
}

// From the experts: their results in the forward pass, gradients of what they read in the backward
// pass.
void PassBuilder::from_experts(const Operator& op, bool gradients, Items& out) {
  const std::string label = op.name + (gradients ? " grad" : "");
  const auto wide = [&](std::int64_t rows) {
    return static_cast<std::int64_t>(static_cast<double>(rows * plan_.job.model.hidden) * width_);
  };
  if (dispatcher_ == Dispatcher::allgather) {
    if (plan_.shard.expert * plan_.shard.expert_tensor > 1) {
      const bool split = rows_.gathered > rows_.tokens;
      collective(out, kTensorExpert, true,
                 split ? Collective::reduce_scatter : Collective::all_reduce, wide(rows_.gathered),
                 Category::expert, label);
    }
    return;
  }
  if (plan_.shard.expert_tensor > 1) {
    const bool split = rows_.computed > rows_.received;
    collective(out, kExpertTensor, true,
               split ? Collective::reduce_scatter : Collective::all_reduce, wide(rows_.computed),
               Category::expert, label);
  }
  if (plan_.shard.expert > 1) {
    if (gradients && dispatcher_ == Dispatcher::alltoall) {
      exchange(out, 4 * std::max(rows_.sent, rows_.received), label + " probabilities");
    }
    if (!sends_copies()) {
      send_tokens(out, label);
    } else {
      exchange(out, wide(std::max(rows_.sent, rows_.received)), label);
    }
  }
}

// DeepEP, HybridEP.
void PassBuilder::send_tokens(Items& out, const std::string& label) {
  const double bytes = static_cast<double>(rows_.tokens * plan_.job.model.hidden) * width_;
  Item item;
  item.kind = Item::Kind::collective;
  item.category = Category::expert;
  item.role = kExpert;
  item.weight = weight_;
  item.label = context_.labels->id(label + " tokens");
  item.price = context_.book->key(kExpert, {Bytes(static_cast<std::int64_t>(bytes)), rows_.experts,
                                            rows_.topk, plan_.style.routing.load});
  item.kernels = 2;
  out.push_back(item);
}

void PassBuilder::exchange(Items& out, std::int64_t bytes, const std::string& label) {
  collective(out, kExpert, true, Collective::all_to_all, bytes, Category::expert, label);
}

// Copies are laid out before they travel, tokens after.
bool PassBuilder::sends_copies() const { return dispatcher_ == Dispatcher::alltoall; }

void PassBuilder::expert_before(std::size_t i, Items& out) {
  const Operator& op = graph_.operators[i];
  if (op.expert == ExpertRole::dispatch && !sends_copies()) {
    to_experts(op, false, out);
  } else if (op.expert == ExpertRole::combine && sends_copies()) {
    from_experts(op, false, out);
  }
}

void PassBuilder::expert_after(std::size_t i, Items& out) {
  const Operator& op = graph_.operators[i];
  if (op.expert == ExpertRole::dispatch && sends_copies()) {
    to_experts(op, false, out);
  } else if (op.expert == ExpertRole::combine && !sends_copies()) {
    from_experts(op, false, out);
  }
}

void PassBuilder::expert_before_backward(std::size_t i, Items& out) {
  const Operator& op = graph_.operators[i];
  if (op.expert == ExpertRole::combine && !sends_copies()) {
    to_experts(op, true, out);
  } else if (op.expert == ExpertRole::dispatch && sends_copies()) {
    from_experts(op, true, out);
  }
}

void PassBuilder::expert_after_backward(std::size_t i, Items& out) {
  const Operator& op = graph_.operators[i];
  if (op.expert == ExpertRole::combine && sends_copies()) {
    to_experts(op, true, out);
  } else if (op.expert == ExpertRole::dispatch && !sends_copies()) {
    from_experts(op, true, out);
  }
}

}  // namespace stepcast::lower
