// Mixers that pass along the sequence (Mamba-2, the gated delta rule) over context ranks: each rank
// trades its part of all sequences for whole sequences of a part of the heads, and back behind the
// mixer (megatron-core 0.16.0, ssm/mamba_context_parallel.py: pre_conv_ssm, post_conv_ssm; 0.18.0,
// ssm/gated_delta_net.py: tensor_a2a_cp2hp). What it sends and receives is laid out by copies:
// ahead of an all-to-all and behind it, and once more where sequences are put in the order that
// attention's balance changed.
#include <numeric>

#include "pass_feature.h"

namespace stepcast::lower {
namespace {

using model::Operator;
using program::Category;

class SequenceTrade : public PassFeature {
 public:
  explicit SequenceTrade(PassState& state) : state_(state) {}

  void before_forward(std::size_t i) override { ahead(at(i), ""); }
  void after_forward(std::size_t i) override { behind(at(i), ""); }
  void before_backward(std::size_t i) override { behind(at(i), " grad"); }
  void after_backward(std::size_t i) override { ahead(at(i), " grad"); }

  void add_memory(std::size_t i, TensorRules& rules) const override {
    const std::int64_t before = sum(at(i).traded_before);
    const std::int64_t after = sum(at(i).traded_after);
    // Ahead of the mixer: the parts as they are received, these joined, and what the projection
    // made; what is in order is kept. Behind it: in order, as received, and joined.
    rules.forward += 3 * before + 2 * after;
    rules.input_grad += before + 2 * after;
  }

 private:
  const Operator& at(std::size_t i) const { return state_.graph.operators[i]; }

  static std::int64_t sum(const std::vector<std::int64_t>& bytes) {
    return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
  }

  // Gradients pass through the same copies and all-to-alls the other way.
  void ahead(const Operator& op, const char* of) {
    trade(op, op.traded_before, of);
    if (!op.traded_before.empty()) {
      // The parts of several all-to-alls are joined; columns of a single one are put in order
      // first.
      copy(op, sum(op.traded_before), "joined");
      if (state_.plan.context_exchange.balanced) {
        copy(op, sum(op.traded_before), "sequence in order");
      }
    }
  }

  void behind(const Operator& op, const char* of) {
    trade(op, op.traded_after, of);
    for (const std::int64_t bytes : op.traded_after) {
      if (state_.plan.context_exchange.balanced) {
        copy(op, bytes, "sequence by rank");
      }
    }
  }

  void trade(const Operator& op, const std::vector<std::int64_t>& tensors, const char* of) {
    for (const std::int64_t bytes : tensors) {
      copy(op, bytes, "heads by rank");
      collective(state_,
                 {kContext, cost::Collective::all_to_all, bytes, Category::context, op.name + of});
    }
  }

  void copy(const Operator& op, std::int64_t bytes, const char* what) {
    memory_kernel(state_, cost::MemoryOp::elementwise, 2 * bytes, op.name + " " + what);
  }

  PassState& state_;
};

}  // namespace

std::unique_ptr<PassFeature> make_sequence_trade(PassState& state) {
  const bool trades = state.plan.grid.context > 1 && state.graph.kind.recurrent();
  return trades ? std::make_unique<SequenceTrade>(state) : nullptr;
}

}  // namespace stepcast::lower
