#include "context_steps.h"

#include <algorithm>

#include "stepcast/model/documents.h"

namespace stepcast::lower {
namespace {

using model::AttentionShape;

// (query, key) pairs of one sequence that a rank computes: its queries with all keys before them;
// of the rank that has the most.
double most_pairs(const ContextShape& context, const std::vector<std::int64_t>& documents) {
  const auto filled = model::fill_sequence(documents, context.whole.key_length);
  const std::int64_t chunks = context.balanced ? 2 * context.outer : context.outer;
  const auto of_chunk = [&](std::int64_t i) {
    const std::int64_t s = context.whole.key_length;
    return model::causal_pairs(filled, i * s / chunks, (i + 1) * s / chunks, context.whole.window);
  };
  double most = 0;
  for (int i = 0; i < context.outer; ++i) {
    most = std::max(most, of_chunk(i) + (context.balanced ? of_chunk(chunks - 1 - i) : 0));
  }
  return most;
}

AttentionShape part(const ContextShape& context, std::int64_t queries, std::int64_t keys,
                    bool causal) {
  AttentionShape out = context.whole;
  out.query_length = std::max<std::int64_t>(1, queries);
  out.key_length = std::max<std::int64_t>(1, keys);
  out.causal = causal;
  return out;
}

// Keys of every rank beside this rank's queries: one kernel for each of its chunks, with the keys
// up to the chunk's end.
std::vector<ContextStep> gathered(const ContextShape& context,
                                  const std::vector<std::int64_t>& documents) {
  const std::int64_t q = context.whole.query_length;
  const std::int64_t k = context.whole.key_length;
  if (!context.whole.causal) {
    return {{{part(context, q, k, false)}, 1}};
  }
  const int kernels = context.balanced ? 2 : 1;
  // The two chunks together see (2 outer + 1) chunks of keys; a last rank alone sees all.
  AttentionShape each = part(context, q / kernels, context.balanced ? (k + q / 2) / 2 : k, true);
  const auto pairs = [](const AttentionShape& s) {
    return static_cast<double>(s.query_length) *
           (static_cast<double>(s.key_length) - static_cast<double>(s.query_length) / 2);
  };
  if (!documents.empty() || each.window > 0) {
    each.window = 0;
    each.share = most_pairs(context, documents) / (kernels * pairs(each));
  }
  return std::vector<ContextStep>(static_cast<std::size_t>(kernels),
                                  ContextStep{{each}, 1.0 / kernels});
}

}  // namespace

ContextShape context_shape(const strategy::Plan& plan, const AttentionShape& shape, double width) {
  using Kind = ContextKind;
  const Kind kind = plan.context_exchange.kind;
  const int ranks = plan.grid.context;
  ContextShape out;
  out.inner = kind == Kind::a2a            ? ranks
              : kind == Kind::hierarchical ? plan.context_exchange.inner
                                           : 1;
  out.outer = ranks / out.inner;
  out.gathers = kind == Kind::all_gather;
  out.in_steps = plan.context_exchange.in_steps && out.inner == 1;
  out.balanced = plan.context_exchange.balanced && shape.causal;
  const std::int64_t tokens = shape.sequences * shape.key_length / ranks;
  const auto bytes = [&](std::int64_t heads, std::int64_t dim) {
    return static_cast<std::int64_t>(static_cast<double>(tokens * heads * dim) * width);
  };
  const int kv_heads =
      std::max(shape.kv_heads, out.inner);  // fewer are repeated before the all-to-all
  out.query_bytes = bytes(shape.heads, shape.qk_dim);
  out.key_bytes = bytes(kv_heads, shape.qk_dim);
  out.value_bytes = bytes(kv_heads, shape.v_dim);
  out.output_bytes = bytes(shape.heads, shape.v_dim);
  out.ring_bytes = out.key_bytes + out.value_bytes;
  out.whole = shape;
  out.whole.query_length = shape.key_length / out.outer;
  out.whole.heads = std::max(1, shape.heads / out.inner);
  out.whole.kv_heads = kv_heads / out.inner;
  return out;
}

std::vector<ContextStep> context_steps(const ContextShape& context,
                                       const std::vector<std::int64_t>& documents) {
  const std::int64_t q = context.whole.query_length;
  const int c = context.outer;
  AttentionShape own = part(context, q, q, context.whole.causal);
  if (own.masked) {
    return {{{own}, 1}};
  }
  if (c == 1) {
    const auto pairs = [&](const std::vector<std::int64_t>& lengths) {
      return model::causal_pairs(model::fill_sequence(lengths, q), 0, q, own.window);
    };
    own.share = own.causal ? pairs(documents) / pairs({}) : model::document_share(documents, q);
    return {{{own}, 1}};
  }
  if (context.gathers && !context.in_steps) {
    return gathered(context, documents);
  }
  std::vector<ContextStep> out;
  if (!context.whole.causal) {
    return std::vector<ContextStep>(static_cast<std::size_t>(c), ContextStep{{own}, 1});
  }
  // A ring cuts every document into the ranks' chunks, as Transformer Engine does packed sequences
  // (thd).
  const double share = model::document_share(documents, context.whole.key_length);
  own.share = share;
  out.push_back({{own}, 1});
  ContextStep other;
  if (context.balanced) {
    // Keys of ranks before this one: the first half of them, for all queries. Of ranks behind: all,
    // for the second half.
    other.shapes = {part(context, q, q / 2, false), part(context, q / 2, q, false)};
    other.queries = 0.75;
  } else {
    // The last rank computes every step in full; ranks before it skip some and wait for it.
    other.shapes = {part(context, q, q, false)};
  }
  for (AttentionShape& shape : other.shapes) {
    shape.share = share;
    if (shape.window > 0) {
      // What the window leaves beside the rank's own keys, spread over the steps.
      const std::vector<std::int64_t> none;
      const double all = most_pairs(context, none);
      const double mine = model::causal_pairs(model::fill_sequence(none, q), 0, q,
                                              std::min(context.whole.window, q));
      shape.share =
          share * std::max(0.0, all - mine) / (c - 1) /
          (static_cast<double>(shape.query_length) * static_cast<double>(shape.key_length));
      shape.window = 0;
    }
  }
  for (int step = 1; step < c; ++step) {
    out.push_back(other);
  }
  return out;
}

}  // namespace stepcast::lower
