// What context parallelism makes of an attention operator. The forms are Transformer Engine's
// (context_parallel.py), which Megatron-LM names p2p, all_gather, a2a and a2a+p2p; and torch's ring
// attention (torch/distributed/tensor/experimental/_context_parallel/_attention.py), whose keys are
// gathered or go round.
#include "context_attention.h"

#include "context_steps.h"
#include "passes_quantise.h"

namespace stepcast::lower {
namespace {

using program::Category;

// One attention operator of one pass.
class ContextAttention {
 public:
  ContextAttention(PassState& state, const model::Operator& op)
      : state_(state),
        op_(op),
        context_(context_shape(state.plan, *op.attention, state.width)),
        steps_(context_steps(context_, state.plan.documents)) {}

  void forward() {
    if (context_.inner > 1) {
      trade({context_.query_bytes, context_.key_bytes, context_.value_bytes}, {"q", "k", "v"});
    }
    if (context_.in_steps && context_.outer > 1) {
      stepwise_forward();
    } else if (context_.gathers && context_.outer > 1) {
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
    if (context_.in_steps && context_.outer > 1) {
      stepwise_backward();
    } else if (context_.gathers && context_.outer > 1) {
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
      collective(state_, {role, cost::Collective::all_to_all, bytes[i], Category::context,
                          op_.name + " " + names[i]});
      copy(2 * bytes[i], "sequence in order", 1);
    }
  }

  void attention(const ContextStep& step, bool backward) {
    if (step.shapes.front().masked && !backward) {
      make_mask(step.shapes.front());
    }
    cost::Priced priced;
    for (const model::AttentionShape& shape : step.shapes) {
      const cost::Priced one = state_.context.kernels->attention(
          {.shape = shape,
           .kernel = model::attention_kernel(state_.plan.style, shape),
           .dtype = attention_type(state_),
           .backward = backward,
           .training = true,
           .splash = state_.plan.style.splash});
      priced.time = priced.time + one.time;
      priced.curve = one.curve;
    }
    priced.time = priced.time / static_cast<std::int64_t>(step.shapes.size());
    kernel(state_, {priced, backward ? op_.backward_kernels : op_.forward_kernels,
                    backward ? op_.name + " backward" : op_.name});
  }

  void make_mask(const model::AttentionShape& shape) {
    const model::MaskBytes mask = model::mask_bytes(shape, static_cast<std::int64_t>(state_.width));
    const bool pads = mask.padded > mask.made;
    copy(mask.booleans + mask.made + (pads ? mask.made + mask.padded : 0), "mask", pads ? 2 : 1);
  }

  void copy(std::int64_t moved, const char* what, int launches) {
    memory_kernel(state_, cost::MemoryOp::elementwise, moved, op_.name + " " + what, launches);
  }

  std::int64_t all_keys() const { return context_.outer * context_.ring_bytes; }

  // Gathered keys and values come by rank; balanced chunks are put in order of the sequence.
  void gather_keys() {
    for (const auto& [bytes, name] :
         {std::pair{context_.key_bytes, " k"}, std::pair{context_.value_bytes, " v"}}) {
      collective(state_, {kContext, cost::Collective::all_gather, bytes * context_.outer,
                          Category::context, op_.name + name});
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
      collective(state_, {kContext, cost::Collective::reduce_scatter, bytes * context_.outer,
                          Category::context, op_.name + name});
    }
  }

  // Transformer Engine's copies around a step of a ring: a step that takes half the queries or half
  // the keys copies that half into tensors of their own (`tensors` of the queries' size: q, in the
  // backward pass the result and its gradient too).
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
        join(state_, kContext);
      }
      if (i + 1 < steps_.size()) {
        ring_step(state_, kContext, context_.ring_bytes, Category::context, op_.name + " kv");
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
        ring_step(state_, kContext, (ends ? 1 : 2) * context_.ring_bytes, Category::context,
                  op_.name + (i == 0 ? " kv"
                              : ends ? " dkv"
                                     : " kv, dkv"));
      }
      halves(step, 3);
      attention(step, true);
      if (n == 1) {
        return;
      }
      join(state_, kContext);
      settle(keys, step.queries, true, "dkv together");
      settle(keys, step.queries, i == 0, "dkv sum");
      settle(query, step.queries, i == 0, "dq sum");
    }
  }

  // A compiler traces the ring's steps: each collective's wait stands right behind it (torch 2.6,
  // distributed/_functional_collectives.py:816, _maybe_wrap_tensor), and Inductor keeps that order.
  bool traced() const { return state_.plan.style.compiled; }

  // Nothing travels beside a kernel of a traced ring.
  void wait_where_traced() {
    if (traced()) {
      join(state_, kContext);
    }
  }

  // Keys and values come as transposed views, which are copied before they are joined (torch 2.6,
  // distributed/tensor/experimental/_attention.py:462, key.contiguous()); a compiler writes them
  // where they belong.
  void join_keys(std::size_t step) {
    const bool views = step == 0 && !traced();
    copy((views ? 4 : 2) * context_.ring_bytes, "kv together", views ? 3 : 1);
  }

  // Keys and values in one tensor travel beside the attention of the step under way: all at once
  // with the first step, or to the next rank with every one but the last.
  void send_keys(std::size_t step) {
    if (context_.gathers && step == 0) {
      join_keys(step);
      collective(
          state_,
          {kContext, cost::Collective::all_gather, all_keys(), Category::context, op_.name + " kv"},
          Item::Kind::async);
      wait_where_traced();
    } else if (!context_.gathers && step + 1 < steps_.size()) {
      join_keys(step);
      ring_step(state_, kContext, context_.ring_bytes, Category::context, op_.name + " kv");
      wait_where_traced();
    }
  }

  // fp32 elements of `bytes` in the activations' format.
  std::int64_t elements(std::int64_t bytes) const {
    return static_cast<std::int64_t>(static_cast<double>(bytes) / state_.width);
  }

  // out - sigmoid(lse' - lse) * (out - out'): two differences and a product in fp32, behind the
  // cast of out'; lse - logsigmoid(lse - lse'). Nine kernels, five of them of a number a row. What
  // changes half of a sum copies all of it (_partial_update), in every second step one more of each
  // sum (torch 2.6, distributed/tensor/experimental/_attention.py:95 to 187).
  void merge(const ContextStep& step, bool first) {
    const auto all = static_cast<double>(elements(context_.output_bytes));
    const double cast = state_.width + 4;
    if (first) {
      copy(static_cast<std::int64_t>(all * cast), "merge", 1);
      return;
    }
    const bool halves = step.queries < 1;
    const double update = halves ? 8.0 / 2 : 0;  // of the ranks in one such step, every second
    if (traced()) {  // one kernel reads out' and the sum, and writes the sum
      copy(static_cast<std::int64_t>(all * (step.queries * (state_.width + 8) + update)), "merge",
           1);
      return;
    }
    const double rows = all / op_.attention->v_dim;
    constexpr double kOfRow = 12 + 8 + 12 + 8 + 12;  // three differences and two functions
    copy(static_cast<std::int64_t>(all * (step.queries * (cast + 12 + 12 + 12) + update) +
                                   rows * (step.queries * kOfRow + update)),
         "merge", halves ? 10 : 9);
  }

  void stepwise_forward() {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (i == 1 || (i > 1 && !context_.gathers)) {
        join(state_, kContext);
      }
      send_keys(i);
      attention(steps_[i], false);
      merge(steps_[i], i == 0);
    }
    copy(static_cast<std::int64_t>(static_cast<double>(elements(context_.output_bytes)) *
                                   (4 + state_.width)),
         "cast", 1);
  }

  // Gradients of a rank's keys go on to the next rank after each step, in fp32, and arrive at home
  // after the last.
  void stepwise_backward() {
    const auto query = static_cast<double>(elements(context_.query_bytes));
    const auto keys = static_cast<double>(elements(context_.ring_bytes));
    const double add = 4 + state_.width + 4;
    copy(static_cast<std::int64_t>(4 * (query + keys)), "zero gradients", 3);
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const ContextStep& step = steps_[i];
      const double part = i > 0 && step.queries < 1 ? 0.75 : 1;
      const double update = part < 1 ? 8.0 / 2 : 0;
      if (i == 1 && context_.gathers) {
        join(state_, kContext);
      }
      send_keys(i);
      attention(step, true);
      if (i > 0) {
        join(state_, kContext);  // gradients of the keys, which the rank before has added to
      }
      // Two sums and their concatenation; every second step copies the sums of which it adds to
      // half, and its log-sum-exps (the same file, :688 to :759).
      const bool copies = update > 0 && !traced();
      copy(static_cast<std::int64_t>(keys * (part * add + update + 8)), "dkv sum", copies ? 4 : 3);
      ring_step(state_, kContext, static_cast<std::int64_t>(4 * keys), Category::context,
                op_.name + " dkv");
      wait_where_traced();
      copy(static_cast<std::int64_t>(query * (part * add + update)), "dq sum", copies ? 2 : 1);
    }
    join(state_, kContext);
    copy(static_cast<std::int64_t>((query + keys) * (4 + state_.width)), "cast", 2);
  }

  PassState& state_;
  const model::Operator& op_;
  ContextShape context_;
  std::vector<ContextStep> steps_;
};

}  // namespace

void context_attention(PassState& state, const model::Operator& op, bool backward) {
  ContextAttention attention(state, op);
  if (backward) {
    attention.backward();
  } else {
    attention.forward();
  }
}

}  // namespace stepcast::lower
