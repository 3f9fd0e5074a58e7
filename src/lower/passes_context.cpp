// What context parallelism makes of an attention operator. The forms are Transformer Engine's
// (context_parallel.py), which Megatron-LM names p2p, all_gather, a2a and a2a+p2p.
#include <algorithm>

#include "context_steps.h"
#include "pass_builder.h"

namespace stepcast::lower {

using program::Category;

// One attention operator of one pass.
class ContextAttention {
 public:
  ContextAttention(PassBuilder& builder, const model::Operator& op, Category category,
                   std::vector<Item>& out)
      : b_(builder),
        op_(op),
        category_(category),
        out_(out),
        documents_(builder.plan_.job.workload.documents),
        context_(context_shape(builder.plan_, *op.attention, builder.width_)),
        steps_(context_steps(context_, documents_)) {}

  void forward() {
    if (context_.inner > 1) {
      trade({context_.query_bytes, context_.key_bytes, context_.value_bytes}, {"q", "k", "v"});
    }
    if (context_.gathers && context_.outer > 1) {
      gather_keys();
      for (const ContextStep& step : steps_) {
        attention(step, false);
      }
    } else {
      ring_forward();
    }
    if (context_.inner > 1) {
      trade({context_.output_bytes}, {"output"});
    }
  }

  void backward() {
    if (context_.inner > 1) {
      trade({context_.output_bytes}, {"output grad"});
    }
    if (context_.gathers && context_.outer > 1) {
      gather_keys();  // they were not kept
      for (const ContextStep& step : steps_) {
        attention(step, true);
        // Each chunk's gradients of its keys are added to those of all keys.
        copy(3 * all_keys() * step.shapes.front().key_length / context_.whole.key_length, "dkv add",
             2);
      }
      scatter_gradients();
    } else {
      ring_backward();
    }
    if (context_.inner > 1) {
      trade({context_.query_bytes, context_.key_bytes, context_.value_bytes}, {"dq", "dk", "dv"});
    }
  }

 private:
  // All-to-alls one by one, each between two transposes that lay heads and sequence out by rank.
  void trade(const std::vector<std::int64_t>& bytes, const std::vector<const char*>& names) {
    // Inside a hierarchical group, unless it is all there is.
    const Role role = context_.outer > 1 ? kContextInner : kContext;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      copy(2 * bytes[i], "heads by rank", 1);
      b_.collective(out_, role, true, cost::Collective::all_to_all, bytes[i], Category::context,
                    op_.name + " " + names[i]);
      copy(2 * bytes[i], "sequence in order", 1);
    }
  }

  void attention(const ContextStep& step, bool backward) {
    cost::Priced priced;
    for (const model::AttentionShape& shape : step.shapes) {
      const cost::Priced one =
          b_.context_.kernels->attention({shape, b_.plan_.style.attention, b_.dtype_, backward});
      priced.time = priced.time + one.time;
      priced.curve = one.curve;
    }
    priced.time = priced.time / static_cast<std::int64_t>(step.shapes.size());
    b_.kernel(out_, priced, backward ? op_.backward_kernels : op_.forward_kernels, category_,
              backward ? op_.name + " backward" : op_.name);
  }

  void copy(std::int64_t moved, const char* what, int launches) {
    b_.kernel(out_, b_.context_.kernels->memory(cost::MemoryOp::elementwise, Bytes(moved)),
              launches, category_, op_.name + " " + what, kMemoryBound);
  }

  std::int64_t all_keys() const { return context_.outer * context_.ring_bytes; }

  // Gathered keys and values come by rank; balanced chunks are put in order of the sequence.
  void gather_keys() {
    for (const auto& [bytes, name] :
         {std::pair{context_.key_bytes, " k"}, std::pair{context_.value_bytes, " v"}}) {
      b_.collective(out_, kContext, true, cost::Collective::all_gather, bytes * context_.outer,
                    Category::context, op_.name + name);
    }
    if (context_.balanced) {
      copy(2 * all_keys(), "kv in order", 2);
    }
  }

  void scatter_gradients() {
    if (context_.balanced) {
      copy(2 * all_keys(), "dkv by rank", 2);
    }
    for (const auto& [bytes, name] :
         {std::pair{context_.key_bytes, " dk"}, std::pair{context_.value_bytes, " dv"}}) {
      b_.collective(out_, kContext, true, cost::Collective::reduce_scatter, bytes * context_.outer,
                    Category::context, op_.name + name);
    }
  }

  // What Transformer Engine copies around a step of a ring: where a step takes half the queries or
  // half the keys, those are laid out by themselves (`tensors` of the queries' size: q, in the
  // backward pass its result and its gradient too).
  void halves(const ContextStep& step, int tensors) {
    if (step.shapes.size() == 2) {
      copy((context_.ring_bytes + tensors * context_.query_bytes) / 2, "halves", 1 + tensors);
    }
  }

  // `whole` bytes, written over what the step computed (read and written), or added to it (both
  // read, one written).
  void settle(double whole, double part, bool first, const char* what) {
    copy(static_cast<std::int64_t>((first ? 2 : 3) * whole * part), what, 1);
  }

  // Keys of the next step travel beside the attention of this one. Results of the steps are joined
  // by their log-sum-exps into a sum that starts from zero.
  void ring_forward() {
    const auto output = static_cast<double>(context_.output_bytes);
    const bool ring = steps_.size() > 1;
    if (ring) {
      copy(2 * context_.ring_bytes, "kv together", 1);
    }
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (i > 0) {
        b_.join(out_, kContext);
      }
      if (i + 1 < steps_.size()) {
        b_.ring_step(out_, kContext, context_.ring_bytes, Category::context, op_.name + " kv");
      }
      halves(steps_[i], 1);
      attention(steps_[i], false);
      if (ring) {
        settle(output, steps_[i].queries, i == 0, "merge");
      }
    }
  }

  // Keys go round the other way, so that each block's gradients, which follow it one step behind,
  // end where they belong; a rank's own keys come last.
  void ring_backward() {
    const std::size_t n = steps_.size();
    const auto query = static_cast<double>(context_.query_bytes);
    const auto keys = static_cast<double>(context_.ring_bytes);
    for (std::size_t i = 0; i < n; ++i) {
      const ContextStep& step = steps_[n - 1 - i];
      if (n > 1) {
        const bool ends = i == 0 || i + 1 == n;
        b_.ring_step(out_, kContext, (ends ? 1 : 2) * context_.ring_bytes, Category::context,
                     op_.name + (i == 0 ? " kv"
                                 : ends ? " dkv"
                                        : " kv, dkv"));
      }
      halves(step, 3);
      attention(step, true);
      if (n == 1) {
        return;
      }
      b_.join(out_, kContext);
      settle(keys, step.queries, true, "dkv together");
      settle(keys, step.queries, i == 0, "dkv sum");
      settle(query, step.queries, i == 0, "dq sum");
    }
  }

  PassBuilder& b_;
  const model::Operator& op_;
  Category category_;
  std::vector<Item>& out_;
  const std::vector<std::int64_t>& documents_;
  ContextShape context_;
  std::vector<ContextStep> steps_;
};

bool PassBuilder::context_attention(std::size_t i, bool backward, Category category, Items& out) {
  if (plan_.grid.context == 1 && plan_.job.workload.documents.empty()) {
    return false;
  }
  ContextAttention attention(*this, graph_.operators[i], category, out);
  if (backward) {
    attention.backward();
  } else {
    attention.forward();
  }
  return true;
}

// Ring self-attention (Li et al., 2105.13120; Colossal-AI's RingQK and RingAV): keys go round for
// the scores, values for the results. Backward: they go round again for the gradients of queries
// and probabilities; those of all keys, and of all values, are made whole on each rank and
// all-reduced.
bool PassBuilder::context_product(std::size_t i, bool backward, Category category, Items& out) {
  const Operator& op = graph_.operators[i];
  const int ranks = plan_.grid.context;
  if (ranks == 1 || op.kind != model::OpKind::batched_gemm ||
      op.module != model::Module::core_attention) {
    return false;
  }
  const bool scores = op.name == "scores";  // q k^T, else p v
  const model::Gemm& g = *op.gemm;
  const model::Gemm step{g.m, scores ? g.n / ranks : g.n, scores ? g.k : g.k / ranks, g.batch};
  const std::int64_t block =
      gemm_bytes(scores ? step.n : step.k, scores ? step.k : step.n, g.batch);
  const char* what = scores ? " k" : " v";
  const cost::Layout layout = backward ? cost::Layout::input_grad : cost::Layout::forward;
  const model::Gemm shape = backward ? model::Gemm{step.m, step.k, step.n, step.batch} : step;
  const cost::Priced priced = matrix(op, shape, layout, false);
  for (int n = 0; n < ranks; ++n) {
    if (n > 0) {
      join(out, kContext);
    }
    if (n + 1 < ranks) {
      ring_step(out, kContext, block, Category::context, op.name + what);
    }
    kernel(out, priced, 1, category, backward ? op.name + " backward" : op.name);
  }
  if (backward) {
    kernel(out, matrix(op, {g.k, g.n, g.m, g.batch}, cost::Layout::weight_grad, false), 1, category,
           op.name + " backward");
    collective(out, kContext, true, cost::Collective::all_reduce, block * ranks, Category::context,
               op.name + what + " grad");
  }
  return true;
}

// Where sequence is traded for heads, the kernel keeps its own output, of whole sequences, and the
// projection the one that was traded back (Transformer Engine, context_parallel.py:
// AttnFuncWithCPAndQKVOA2A). Queries, keys and values are kept as traded alone.
std::int64_t PassBuilder::context_kept(const Operator& op) const {
  if (!op.attention || plan_.grid.context == 1) {
    return 0;
  }
  const ContextShape c = context_shape(plan_, *op.attention, width_);
  return c.inner > 1 ? c.output_bytes : 0;
}

std::int64_t PassBuilder::context_temporary(const Operator& op, bool backward) const {
  if (!op.attention || plan_.grid.context == 1) {
    return 0;
  }
  const ContextShape c = context_shape(plan_, *op.attention, width_);
  const std::int64_t keys = c.outer * c.ring_bytes;
  // The all-to-all's other side.
  const std::int64_t traded =
      c.inner > 1 ? c.query_bytes + c.key_bytes + c.value_bytes + (backward ? c.output_bytes : 0)
                  : 0;
  if (c.outer == 1) {
    return traded;
  }
  if (c.gathers) {  // as gathered, and in order; backward their gradients and a chunk's
    return (backward ? 4 : 2) * keys;
  }
  if (!backward) {
    // Transformer Engine holds every step's keys and result until they are joined.
    double results = 0;
    for (const ContextStep& step : context_steps(c, plan_.job.workload.documents)) {
      results += step.queries;
    }
    return traded + keys + static_cast<std::int64_t>(results * static_cast<double>(c.output_bytes));
  }
  // Two buffers of keys and gradients, a step's own gradients.
  return traded + 5 * c.ring_bytes + c.query_bytes;
}

}  // namespace stepcast::lower
