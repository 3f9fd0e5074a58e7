// Dispatch of tokens to experts and their return, by dispatcher (Megatron-LM,
// core/transformer/moe/token_dispatcher.py): all-gather: tokens of all expert-tensor and expert
// ranks are brought together, each rank picks its experts'; all-to-all: copies travel to their
// expert's ranks, which then share them with its expert-tensor ranks; DeepEP and HybridEP: tokens
// travel once to every node and rank that wants them.
#include <algorithm>

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
    collective(out, kExpertTensor, !beside_, Collective::all_gather, wide(rows_.computed),
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
    collective(out, kExpertTensor, !beside_,
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
  item.kind = beside_ ? Item::Kind::async : Item::Kind::collective;
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
  collective(out, kExpert, !beside_, Collective::all_to_all, bytes, Category::expert, label);
}

// How many copies each rank will get is known on the device: the host reads it before it can size
// what comes (MoEAlltoAllTokenDispatcher: cuda_sync_point; DeepEP waits likewise). Copies cut or
// filled up to a capacity are known beforehand, and a graph of the whole step leaves no host to
// wait for.
void PassBuilder::wait_for_counts(Items& out) {
  if (plan_.shard.expert == 1 || dispatcher_ == Dispatcher::allgather ||
      plan_.job.moe.capacity_factor || plan_.job.kernels.cuda_graph) {
    return;
  }
  Item item;
  item.kind = Item::Kind::sync;
  item.role = kExpert;
  out.push_back(item);
}

// Half of a layer's host time goes before either grouped product.
void PassBuilder::prepare_product(const Operator& op, Items& out) {
  const std::int64_t time = plan_.job.system.expert_overhead.count();
  if (op.kind != model::OpKind::grouped_gemm || plan_.job.kernels.cuda_graph || time <= 0) {
    return;
  }
  Item item;
  item.kind = Item::Kind::host;
  item.role = kExpert;
  const std::int64_t local = plan_.job.model.moe->experts / std::max(1, plan_.shard.expert);
  // Lists of splits, quantisers and products are an expert's each (Transformer Engine,
  // GroupedLinear), up to as many as were seen to matter.
  const std::int64_t listed = context_.kernels->software().listed_experts;
  item.duration = time * std::min(local, listed) / listed / 2;
  out.push_back(item);
}

// Shared experts that run beside the way to the routed ones stand, in the graph, between the
// operator that tokens leave behind and the one that needs them.
void PassBuilder::await_tokens(Items& out) {
  if (travelling_) {
    join(out, kExpert);
    travelling_ = false;
  }
}

void PassBuilder::travel(bool to, bool gradients, Items& out) {
  const auto op = std::find_if(graph_.operators.begin(), graph_.operators.end(),
                               [](const Operator& o) { return o.expert == ExpertRole::dispatch; });
  beside_ = plan_.style.routing.shared_beside;
  to ? to_experts(*op, gradients, out) : from_experts(*op, gradients, out);
  travelling_ = beside_;
  beside_ = false;
}

// The first or last product of shared experts that run beside the dispatch.
bool PassBuilder::shared_border(std::size_t i, int step) const {
  const auto& ops = graph_.operators;
  const std::size_t next = i + static_cast<std::size_t>(step);
  return plan_.style.routing.shared_beside && ops[i].gemm &&
         ops[i].module == model::Module::shared_expert && next < ops.size() &&
         ops[next].module == model::Module::moe;
}

// Copies are laid out before they travel, tokens after.
bool PassBuilder::sends_copies() const { return dispatcher_ == Dispatcher::alltoall; }

void PassBuilder::expert_before(std::size_t i, Items& out) {
  const Operator& op = graph_.operators[i];
  const bool dispatches = op.expert == ExpertRole::dispatch;
  const bool beside = plan_.style.routing.shared_beside;
  if (op.module == model::Module::moe) {
    await_tokens(out);
  }
  prepare_product(op, out);
  if (sends_copies()) {
    if (dispatches) {
      wait_for_counts(out);
    } else if (op.expert == ExpertRole::combine) {
      from_experts(op, false, out);
    }
  } else if (beside ? shared_border(i, -1) : dispatches) {
    wait_for_counts(out);
    travel(true, false, out);
  }
}

void PassBuilder::expert_after(std::size_t i, Items& out) {
  const Operator& op = graph_.operators[i];
  if (op.expert == ExpertRole::dispatch && sends_copies()) {
    travel(true, false, out);
  } else if (op.expert == ExpertRole::combine && !sends_copies()) {
    from_experts(op, false, out);
  }
}

void PassBuilder::expert_before_backward(std::size_t i, Items& out) {
  const Operator& op = graph_.operators[i];
  const bool beside = plan_.style.routing.shared_beside;
  if (op.module == model::Module::moe) {
    await_tokens(out);
  }
  prepare_product(op, out);
  if (op.expert == ExpertRole::combine && !sends_copies()) {
    to_experts(op, true, out);
  } else if (sends_copies() && (beside ? shared_border(i, 1) : op.expert == ExpertRole::dispatch)) {
    travel(false, true, out);
  }
}

void PassBuilder::expert_after_backward(std::size_t i, Items& out) {
  const Operator& op = graph_.operators[i];
  if (op.expert == ExpertRole::combine && sends_copies()) {
    to_experts(op, true, out);
  } else if (op.expert == ExpertRole::dispatch && !sends_copies()) {
    travel(false, true, out);
  }
}

}  // namespace stepcast::lower
