// Dispatch of tokens to experts and their return, by dispatcher (Megatron-LM,
// core/transformer/moe/token_dispatcher.py): all-gather: tokens of all expert-tensor and expert
// ranks are brought together, each rank picks its experts'; all-to-all: copies travel to their
// expert's ranks, which then share them with its expert-tensor ranks; DeepEP and HybridEP: tokens
// travel once to every node and rank that wants them.
#include <algorithm>

#include "expert_messages.h"
#include "pass_feature.h"

namespace stepcast::lower {
namespace {

using model::ExpertRole;
using model::Operator;

// Where tokens leave and return, by dispatcher: copies that travel by all-to-all are laid out
// before they travel, so they go behind the operator that lays out and come back before the one
// that takes them; whole tokens go before the first and come back behind the second.
class ExpertExchange : public PassFeature {
 public:
  explicit ExpertExchange(PassState& state)
      : state_(state), messages_(state), dispatcher_(state.plan.style.routing.dispatcher) {}

  void before_forward(std::size_t i) override {
    const Operator& op = at(i);
    const bool dispatches = op.expert == ExpertRole::dispatch;
    await_tokens(op);
    prepare_product(op);
    wait_for_offset(i);
    if (sends_copies()) {
      if (dispatches) {
        wait_for_counts();
      } else if (op.expert == ExpertRole::combine) {
        messages_.from_experts(op, false);
      }
    } else if (shared_beside() ? borders_shared(i, -1) : dispatches) {
      wait_for_counts();
      travel(true, false);
    }
  }

  void after_forward(std::size_t i) override {
    const Operator& op = at(i);
    if (op.expert == ExpertRole::dispatch && sends_copies()) {
      travel(true, false);
    } else if (op.expert == ExpertRole::combine && !sends_copies()) {
      messages_.from_experts(op, false);
    }
  }

  void before_backward(std::size_t i) override {
    const Operator& op = at(i);
    await_tokens(op);
    prepare_product(op);
    if (op.expert == ExpertRole::combine && !sends_copies()) {
      messages_.to_experts(op, true);
    } else if (sends_copies() &&
               (shared_beside() ? borders_shared(i, 1) : op.expert == ExpertRole::dispatch)) {
      travel(false, true);
    }
  }

  void after_backward(std::size_t i) override {
    const Operator& op = at(i);
    if (op.expert == ExpertRole::combine && sends_copies()) {
      messages_.to_experts(op, true);
    } else if (op.expert == ExpertRole::dispatch && !sends_copies()) {
      travel(false, true);
    }
  }

  // Tokens that reached their experts, and those that came back, where a policy keeps what
  // collectives return.
  std::int64_t kept_result(std::size_t i) const override {
    const Operator& op = at(i);
    const bool moves = op.expert == ExpertRole::dispatch || op.expert == ExpertRole::combine;
    if (!moves || state_.plan.shard.expert <= 1 ||
        !state_.plan.tensor_parallel.keeps_scattered_results) {
      return 0;
    }
    return whole_blocks(messages_.received_bytes(op.expert == ExpertRole::dispatch));
  }

 private:
  const Operator& at(std::size_t i) const { return state_.graph.operators[i]; }
  bool sends_copies() const { return dispatcher_ == Dispatcher::alltoall; }
  bool shared_beside() const { return state_.plan.style.routing.shared_beside; }

  // How many copies each rank will get is known on the device: the host reads it before it can size
  // what comes (MoEAlltoAllTokenDispatcher: cuda_sync_point; DeepEP waits likewise).
  void wait_for_counts() {
    if (state_.plan.expert_dispatch.host_reads_counts) {
      if (sends_copies()) {
        messages_.gather_counts("dispatch");
      }
      host_item(Item::Kind::sync);
    }
  }

  // The offset of gpt-oss's activation is a number that is copied to the device from pageable
  // memory, and the host waits for the stream (Megatron-LM core 0.15.0 to 0.16.1,
  // fusions/fused_bias_geglu.py:434, behind the clamps: torch.tensor(linear_offset, device=...)).
  void wait_for_offset(std::size_t i) {
    if (i > 0 && at(i).name == "expert_act" && at(i - 1).name == "expert_clamp") {
      host_item(Item::Kind::sync);
    }
  }

  // Half of a layer's host time goes before either grouped product.
  void prepare_product(const Operator& op) {
    const Time time = state_.plan.expert_dispatch.overhead;
    if (op.kind != model::OpKind::grouped_gemm || time <= Time{0}) {
      return;
    }
    const std::int64_t local =
        state_.plan.model.moe->experts / std::max(1, state_.plan.shard.expert);
    // Lists of splits, quantisers and products are an expert's each (Transformer Engine 2.8.0,
    // pytorch/module/grouped_linear.py:754 to 780), up to as many as were seen to matter.
    const std::int64_t listed = state_.context.kernels->software().listed_experts;
    host_item(Item::Kind::host, time * std::min(local, listed) / listed / 2);
  }

  void host_item(Item::Kind kind, Time duration = Time{0}) {
    Item item;
    item.kind = kind;
    item.role = kExpert;
    item.duration = duration;
    state_.out->push_back(item);
  }

  // Shared experts that run beside the way to the routed ones stand, in the graph, between the
  // operator that tokens leave behind and the one that needs them.
  void await_tokens(const Operator& op) {
    if (travelling_ && op.module == model::Module::moe) {
      join(state_, kExpert);
      travelling_ = false;
    }
  }

  void travel(bool to, bool gradients) {
    const auto& ops = state_.graph.operators;
    const auto dispatch = std::find_if(ops.begin(), ops.end(), [](const Operator& op) {
      return op.expert == ExpertRole::dispatch;
    });
    const Item::Kind kind = shared_beside() ? Item::Kind::async : Item::Kind::collective;
    to ? messages_.to_experts(*dispatch, gradients, kind)
       : messages_.from_experts(*dispatch, gradients, kind);
    travelling_ = shared_beside();
  }

  // The first or last product of shared experts that run beside the dispatch.
  bool borders_shared(std::size_t i, int step) const {
    const auto& ops = state_.graph.operators;
    const std::size_t next = i + static_cast<std::size_t>(step);
    return shared_beside() && ops[i].gemm && ops[i].module == model::Module::shared_expert &&
           next < ops.size() && ops[next].module == model::Module::moe;
  }

  PassState& state_;
  ExpertMessages messages_;
  Dispatcher dispatcher_;
  bool travelling_ = false;  // tokens that run beside shared experts and have not been awaited
};

}  // namespace

std::unique_ptr<PassFeature> make_expert_exchange(PassState& state) {
  return state.plan.model.moe ? std::make_unique<ExpertExchange>(state) : nullptr;
}

}  // namespace stepcast::lower
