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
          b_.context_.kernels->attention(shape, b_.plan_.style.attention, b_.dtype_, backward);
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

  // Keys of the next step travel beside the attention of this one. Results of the steps are joined
  // by their log-sum-exps: the step's are read, the sum read and written.
  void ring_forward() {
    const auto output = static_cast<double>(context_.output_bytes);
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (i > 0) {
        b_.join(out_, kContext);
      }
      if (i + 1 < steps_.size()) {
        b_.ring_step(out_, kContext, context_.ring_bytes, Category::context, op_.name + " kv");
      }
      attention(steps_[i], false);
      if (i > 0) {
        copy(static_cast<std::int64_t>(3 * output * steps_[i].queries), "merge", 2);
      }
    }
  }

  // Keys go round the other way, so that each block's gradients, which follow it one step behind,
  // end where they belong; a rank's own keys come last.
  void ring_backward() {
    const std::size_t n = steps_.size();
    for (std::size_t i = 0; i < n; ++i) {
      if (n > 1) {
        const bool ends = i == 0 || i + 1 == n;
        b_.ring_step(out_, kContext, (ends ? 1 : 2) * context_.ring_bytes, Category::context,
                     op_.name + (i == 0 ? " kv"
                                 : ends ? " dkv"
                                        : " kv, dkv"));
      }
      attention(steps_[n - 1 - i], true);
      if (n == 1) {
        return;
      }
      b_.join(out_, kContext);
      const auto query = static_cast<double>(context_.query_bytes);
      const double passes = i == 0 ? 2 : 3;  // a copy, then sums
      copy(static_cast<std::int64_t>(passes * static_cast<double>(context_.ring_bytes)), "dkv add",
           1);
      copy(static_cast<std::int64_t>(passes * query * steps_[n - 1 - i].queries), "dq add", 1);
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
