#include "expert_messages.h"

#include <algorithm>

namespace stepcast::lower {

using cost::Collective;
using model::Operator;
using program::Category;

ExpertMessages::ExpertMessages(PassState& state)
    : state_(state),
      dispatcher_(state.plan.style.routing.dispatcher),
      rows_(model::expert_rows(state.plan.model, state.plan.shard, state.plan.style.routing)) {}

void ExpertMessages::to_experts(const Operator& op, bool gradients, Item::Kind kind) {
  const std::string label = op.name + (gradients ? " grad" : "");
  if (dispatcher_ == Dispatcher::allgather) {
    gather_tokens(label, gradients);
    return;
  }
  const bool probabilities = with_probabilities() && !gradients;
  if (state_.plan.shard.expert > 1) {
    send(label, kind, narrow());
    if (probabilities) {
      send_probabilities(label, kind);
    }
  }
  if (state_.plan.shard.expert_tensor > 1 && rows_.computed > rows_.received) {
    share_among_tensor_ranks(Collective::all_gather, label, kind);
    if (probabilities) {
      share_probabilities(Collective::all_gather, label, kind);
    }
  }
}

void ExpertMessages::from_experts(const Operator& op, bool gradients, Item::Kind kind) {
  const std::string label = op.name + (gradients ? " grad" : "");
  if (dispatcher_ == Dispatcher::allgather) {
    sum_tokens(label, gradients);
    return;
  }
  const bool whole = state_.plan.style.routing.whole_sequence;
  // Partial sums of a whole sequence are summed with those of shared experts behind the layer.
  if (state_.plan.shard.expert_tensor > 1 && (gradients || !whole)) {
    const bool split = rows_.computed > rows_.received;
    if (gradients && split && with_probabilities()) {
      share_probabilities(Collective::reduce_scatter, label, kind);
    }
    share_among_tensor_ranks(split ? Collective::reduce_scatter : Collective::all_reduce, label,
                             kind);
  }
  if (state_.plan.shard.expert > 1) {
    if (gradients && with_probabilities()) {
      send_probabilities(label, kind);
    }
    send(label, kind);
  }
}

std::int64_t ExpertMessages::received_bytes(bool dispatch) const {
  const std::int64_t bytes = token_bytes(dispatch ? rows_.received : rows_.sent);
  return dispatch && narrow() ? in_fp8(bytes) : bytes;
}

bool ExpertMessages::with_probabilities() const {
  return dispatcher_ == Dispatcher::alltoall && state_.plan.style.routing.sends_probabilities;
}

bool ExpertMessages::narrow() const {
  return few_bits(state_) && state_.plan.style.routing.fp8_dispatch;
}

std::int64_t ExpertMessages::in_fp8(std::int64_t bytes) const {
  constexpr double kScaled = 1 + 4.0 / 128;  // a scale of four bytes for 128 elements
  return static_cast<std::int64_t>(static_cast<double>(bytes) * kScaled / state_.width);
}

std::int64_t ExpertMessages::token_bytes(std::int64_t rows) const {
  return matrix_bytes(state_, rows, model::routed_width(state_.plan.model), 1);
}

void ExpertMessages::gather_tokens(const std::string& label, bool gradients) {
  if (rows_.gathered == rows_.tokens) {  // alone, or all hold the same tokens
    return;
  }
  if (!gradients) {  // router's choice of every token: a map byte an expert, and its probability
    collective(state_,
               {kTensorExpert, Collective::all_gather, rows_.gathered * rows_.routes.experts,
                Category::expert, label + " routing map"});
    collective(state_, {kTensorExpert, Collective::all_gather, chosen_bytes(), Category::expert,
                        label + " probabilities"});
  }
  collective(state_, {kTensorExpert, Collective::all_gather, token_bytes(rows_.gathered),
                      Category::expert, label});
}

// Of all gathered tokens, in the activations' format (Megatron-Core's moe_router_dtype left out).
std::int64_t ExpertMessages::chosen_bytes() const {
  return static_cast<std::int64_t>(static_cast<double>(rows_.gathered * rows_.routes.experts) *
                                   state_.width);
}

void ExpertMessages::sum_tokens(const std::string& label, bool gradients) {
  if (state_.plan.shard.expert * state_.plan.shard.expert_tensor > 1) {
    const bool split = rows_.gathered > rows_.tokens;
    collective(state_, {kTensorExpert, split ? Collective::reduce_scatter : Collective::all_reduce,
                        token_bytes(rows_.gathered), Category::expert, label});
    if (gradients && split) {
      collective(state_, {kTensorExpert, Collective::reduce_scatter, chosen_bytes(),
                          Category::expert, label + " probabilities"});
    }
  }
}

void ExpertMessages::share_among_tensor_ranks(Collective op, const std::string& label,
                                              Item::Kind kind) {
  collective(state_, {kExpertTensor, op, token_bytes(rows_.computed), Category::expert, label},
             kind);
}

void ExpertMessages::share_probabilities(Collective op, const std::string& label, Item::Kind kind) {
  collective(state_,
             {kExpertTensor, op, probability_bytes(rows_.computed), Category::expert,
              label + " probabilities"},
             kind);
}

void ExpertMessages::send(const std::string& label, Item::Kind kind, bool narrow) {
  if (dispatcher_ == Dispatcher::alltoall) {
    send_copies(token_bytes(std::max(rows_.sent, rows_.received)), label, kind);
  } else {
    send_tokens(label, kind, narrow);
  }
}

void ExpertMessages::send_copies(std::int64_t bytes, const std::string& label, Item::Kind kind) {
  collective(state_, {kExpert, Collective::all_to_all, bytes, Category::expert, label}, kind);
}

// In the activations' format (Megatron-Core 0.16.1: moe_router_dtype left out).
std::int64_t ExpertMessages::probability_bytes(std::int64_t rows) const {
  return static_cast<std::int64_t>(static_cast<double>(rows) * state_.width);
}

void ExpertMessages::send_probabilities(const std::string& label, Item::Kind kind) {
  send_copies(probability_bytes(std::max(rows_.sent, rows_.received)), label + " probabilities",
              kind);
}

// How many tokens each rank has for each expert, in int64 (Megatron-Core 0.16.1,
// transformer/moe/token_dispatcher.py:519). With a capacity it is known. Elsewhere each rank is
// told of its own experts (torchtitan 0.2.2, distributed/expert_parallel.py:117).
void ExpertMessages::gather_counts(const std::string& label) {
  constexpr std::int64_t kCount = 8;
  if (!state_.plan.style.routing.sends_probabilities) {
    send_copies(kCount * rows_.routes.experts, label + " counts", Item::Kind::collective);
    return;
  }
  const int ranks = state_.plan.shard.expert * state_.plan.shard.expert_tensor;
  collective(state_, {kTensorExpert, Collective::all_gather, kCount * rows_.routes.experts * ranks,
                      Category::expert, label + " counts"});
}

// DeepEP, HybridEP: a token travels once to every node and rank that wants it.
void ExpertMessages::send_tokens(const std::string& label, Item::Kind kind, bool narrow) {
  const std::int64_t wide = token_bytes(rows_.tokens);
  const std::int64_t sent = narrow ? in_fp8(wide) : wide;
  if (narrow) {
    memory_kernel(state_, cost::MemoryOp::elementwise, wide + sent, label + " cast");
  }
  const double beside =
      state_.plan.expert_dispatch.beside ? state_.context.kernels->software().tokens_beside : 1;
  Item item;
  item.kind = kind;
  item.category = Category::expert;
  item.role = kExpert;
  item.weight = state_.weight;
  item.label = state_.context.labels->id(label + " tokens");
  item.price = state_.context.book->key(kExpert, {.tokens = Bytes(sent),
                                                  .routes = rows_.routes,
                                                  .load = state_.plan.style.routing.load,
                                                  .beside = beside});
  item.kernels = 2;
  state_.out->push_back(item);
}

}  // namespace stepcast::lower
