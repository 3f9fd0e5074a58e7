// Context parallelism around attention: a fused operator in the steps of context_attention.cpp, the
// products of unfused attention round a ring.
#include <algorithm>

#include "context_attention.h"
#include "context_steps.h"
#include "pass_feature.h"
#include "pass_products.h"

namespace stepcast::lower {
namespace {

using cost::Layout;
using model::Operator;
using program::Category;

class ContextExchange : public PassFeature {
 public:
  explicit ContextExchange(PassState& state) : state_(state), ranks_(state.plan.grid.context) {}

  bool in_place_of(std::size_t i, Layout layout) override {
    const Operator& op = state_.graph.operators[i];
    const bool backward = layout != Layout::forward;
    if (op.attention) {
      context_attention(state_, op, backward);
      return true;
    }
    if (ranks_ > 1 && op.kind == model::OpKind::batched_gemm &&
        op.module == model::Module::core_attention && !state_.graph.kind.recurrent()) {
      ring_products(op, backward);
      return true;
    }
    return false;
  }

  void add_memory(std::size_t i, TensorRules& rules) const override {
    const Operator& op = state_.graph.operators[i];
    if (!op.attention || ranks_ == 1) {
      return;
    }
    const ContextShape shape = context_shape(state_.plan, *op.attention, state_.width);
    // Where sequence is traded for heads, the kernel keeps its own output, of whole sequences, and
    // the projection the one that was traded back (Transformer Engine, context_parallel.py:
    // AttnFuncWithCPAndQKVOA2A). Queries, keys and values are kept as traded alone. Torch's ring
    // attention keeps its result before it is laid out for the projection, which a policy that
    // recomputes by operators makes again.
    const bool laid_out = shape.in_steps && !by_policy(state_.redone);
    rules.kept += shape.inner > 1 || laid_out ? shape.output_bytes : 0;
    rules.forward += temporary_bytes(shape, false);
    rules.input_grad += temporary_bytes(shape, true);
  }

 private:
  // Ring self-attention (Li et al., 2105.13120; Colossal-AI's RingQK and RingAV): keys go round for
  // the scores, values for the results. Backward: they go round again for the gradients of queries
  // and probabilities; those of all keys, and of all values, are made whole on each rank and
  // all-reduced.
  void ring_products(const Operator& op, bool backward) {
    const bool scores = op.name == "scores";  // q k^T, else p v
    const model::Gemm& g = *op.gemm;
    const model::Gemm step{g.m, scores ? g.n / ranks_ : g.n, scores ? g.k : g.k / ranks_, g.batch};
    const std::int64_t block =
        matrix_bytes(state_, scores ? step.n : step.k, scores ? step.k : step.n, g.batch);
    const char* what = scores ? " k" : " v";
    const model::Gemm shape = backward ? model::Gemm{step.m, step.k, step.n, step.batch} : step;
    const cost::Priced priced =
        product(state_, op, shape, backward ? Layout::input_grad : Layout::forward);
    for (int n = 0; n < ranks_; ++n) {
      if (n > 0) {
        join(state_, kContext);
      }
      if (n + 1 < ranks_) {
        ring_step(state_, kContext, block, Category::context, op.name + what);
      }
      kernel(state_, {priced, 1, backward ? op.name + " backward" : op.name});
    }
    if (backward) {
      kernel(state_, {product(state_, op, {g.k, g.n, g.m, g.batch}, Layout::weight_grad), 1,
                      op.name + " backward"});
      collective(state_, {kContext, cost::Collective::all_reduce, block * ranks_, Category::context,
                          op.name + what + " grad"});
    }
  }

  // Bytes that context parallelism adds while an attention operator runs.
  std::int64_t temporary_bytes(const ContextShape& c, bool backward) const {
    const std::int64_t keys = c.outer * c.ring_bytes;
    // The all-to-all's other side.
    const std::int64_t traded =
        c.inner > 1 ? c.query_bytes + c.key_bytes + c.value_bytes + (backward ? c.output_bytes : 0)
                    : 0;
    if (c.outer == 1) {
      return traded;
    }
    if (c.in_steps) {
      // Forward: keys together and of all ranks; the sum, a step's result, their difference and the
      // product of it in fp32. Back: gradients of queries and keys in fp32, as summed, sent and
      // received, and a step's own.
      const std::int64_t all = c.ring_bytes + (c.gathers ? keys : 2 * c.ring_bytes);
      const auto wide = [&](std::int64_t bytes) {
        return static_cast<std::int64_t>(static_cast<double>(bytes) * 4 / state_.width);
      };
      return backward
                 ? all + wide(c.query_bytes) + 3 * wide(c.ring_bytes) + c.query_bytes + c.ring_bytes
                 : all + 4 * wide(c.output_bytes) + c.output_bytes;
    }
    if (c.gathers) {  // as gathered, and in order; backward their gradients and a chunk's
      return (backward ? 4 : 2) * keys;
    }
    if (backward) {  // two buffers of keys and gradients, a step's own gradients
      return traded + 5 * c.ring_bytes + c.query_bytes;
    }
    // Transformer Engine holds every step's keys and result until they are joined.
    double results = 0;
    for (const ContextStep& step : context_steps(c, state_.plan.documents)) {
      results += step.queries;
    }
    return traded + keys + static_cast<std::int64_t>(results * static_cast<double>(c.output_bytes));
  }

  PassState& state_;
  int ranks_;
};

}  // namespace

std::unique_ptr<PassFeature> make_context_exchange(PassState& state) {
  const bool cut = state.plan.grid.context > 1 || !state.plan.documents.empty();
  return cut ? std::make_unique<ContextExchange>(state) : nullptr;
}

}  // namespace stepcast::lower
