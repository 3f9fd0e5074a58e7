// Attention layers that differ within one model: windows, chunks, masks, encoders, other numbers of
// heads.
//
// LAW  a causal query at position p with a window w attends to min(p, w) keys: w s - w^2 / 2 scores
// in a
//      sequence of length s, half of the square for w = s.
#include <algorithm>

#include "builder.h"

namespace stepcast::model {

std::int64_t encoder_sequence(const job::Model& model, std::int64_t sequence_length) {
  const bool both = model.encoder_layers > 0 && model.encoder_layers < model.layers;
  return both && model.encoder_sequence > 0 ? model.encoder_sequence : sequence_length;
}

double attention_pairs(const AttentionShape& shape) {
  const auto queries = static_cast<double>(shape.query_length);
  const auto keys = static_cast<double>(shape.key_length);
  const auto window = static_cast<double>(shape.window);
  const bool windowed = shape.window > 0 && shape.window < shape.key_length;
  if (!shape.causal) {
    return queries * (windowed ? window : keys) * shape.share;
  }
  return queries * (windowed ? window - window * window / (2 * keys) : keys / 2) * shape.share;
}

MaskBytes mask_bytes(const AttentionShape& shape, std::int64_t element) {
  constexpr std::int64_t kAligned = 16;
  const std::int64_t rows = shape.sequences * shape.query_length;
  return {shape.query_length * shape.key_length, rows * shape.key_length * element,
          rows * ceil_div(shape.key_length, kAligned) * kAligned * element};
}

job::AttentionKernel attention_kernel(const Style& style, const AttentionShape& shape) {
  const bool takes_masks = style.attention == job::AttentionKernel::cudnn;
  return shape.masked && !takes_masks ? job::AttentionKernel::efficient : style.attention;
}

bool takes_mask(const Builder& b, const LayerKind& kind, int qk_dim, int v_dim) {
  if (b.style.masks == job::AttentionMasks::none || kind.encoder || kind.recurrent() ||
      b.shard.context > 1 || !fuses_core(b, qk_dim, v_dim)) {
    return false;
  }
  return b.style.masks == job::AttentionMasks::all ||
         (kind.mixer == LayerKind::Mixer::window && b.model.sliding_window <= b.sequence);
}

HeadShape head_shape(const job::Model& model, const LayerKind& kind) {
  if (kind.mixer == LayerKind::Mixer::window && model.window_heads) {
    const job::WindowHeads& h = *model.window_heads;
    return {h.heads, h.kv_heads,    h.head_dim, h.v_dim > 0 ? h.v_dim : h.head_dim,
            false,   kind.shares_kv};
  }
  return {model.heads,
          model.kv_heads,
          model.head_dim,
          model.v_dim > 0 ? model.v_dim : model.head_dim,
          model.keys_as_values && kind.mixer == LayerKind::Mixer::attention,
          kind.shares_kv};
}

void apply_window(const Builder& b, AttentionShape& shape) {
  if (b.model.indexer && !b.kind.attends_all) {
    shape.window = b.model.indexer->topk;
  }
  if (b.kind.mixer != LayerKind::Mixer::window) {
    return;
  }
  const std::int64_t window = b.model.sliding_window;
  if (!b.model.chunked_window) {
    shape.window = window;
  } else if (window < shape.key_length) {
    // Each chunk is a sequence of its own.
    const std::int64_t queries = std::min(shape.query_length, window);
    shape.sequences = shape.sequences * shape.query_length / queries;
    shape.query_length = queries;
    shape.key_length = window;
  }
}

Node add_gate(Builder& b, const char* name, std::int64_t width, Node from, Tensor& output) {
  Operator op = named(name, OpKind::activation, Module::attention);
  const std::int64_t bytes = b.tokens * width * b.element;
  keep(op, "gate", b.tensor(bytes));
  keep(op, "output", output);
  // Sigmoid and product; the backward pass computes the gradients of both factors from both factors
  // and the result's gradient.
  if (b.style.compiled) {
    moves(op, 3 * bytes, 5 * bytes, 1, 1);
  } else {
    keep(op, "sigmoid", b.tensor(bytes));
    moves(op, 5 * bytes, 9 * bytes, 2, 3);
  }
  op.forward_output = Bytes(bytes);
  output = b.tensor(bytes);
  return b.add(std::move(op), {from});
}

}  // namespace stepcast::model
