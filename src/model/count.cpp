#include "stepcast/model/count.h"

#include "stepcast/model/operators.h"

namespace stepcast::model {
namespace {

// Closed forms of one layer, whole: `weights` are elements of matrices that every token multiplies.
struct Layer {
  std::int64_t weights =
      0;  // attention, router, shared experts, and the dense MLP or the k active experts
  std::int64_t idle_experts =
      0;  // elements of the experts that a token does not visit, with their biases
  std::int64_t vectors = 0;  // norms, biases
};

std::int64_t norm_vectors(const job::Model& m) { return m.norm == job::Norm::layer ? 2 : 1; }

void count_attention(const job::Model& m, Layer& layer) {
  const std::int64_t h = m.hidden;
  if (m.mla) {
    const job::Mla& a = *m.mla;
    const std::int64_t q = static_cast<std::int64_t>(m.heads) * (a.qk_nope_dim + a.qk_rope_dim);
    const std::int64_t kv = static_cast<std::int64_t>(m.heads) * (a.qk_nope_dim + a.v_dim);
    layer.weights += a.q_lora_rank > 0 ? h * a.q_lora_rank + a.q_lora_rank * q : h * q;
    layer.weights += h * (a.kv_lora_rank + a.qk_rope_dim) + a.kv_lora_rank * kv;
    layer.weights += static_cast<std::int64_t>(m.heads) * a.v_dim * h;
    layer.vectors += norm_vectors(m) * (a.q_lora_rank + a.kv_lora_rank);
  } else {
    const std::int64_t qkv = static_cast<std::int64_t>(m.heads + 2 * m.kv_heads) * m.head_dim;
    layer.weights += h * qkv + static_cast<std::int64_t>(m.heads) * m.head_dim * h;
    if (m.biases.qkv) {
      layer.vectors += qkv;
    }
    if (m.qk_norm) {
      layer.vectors += 2 * m.head_dim;
    }
  }
  if (m.biases.attention_out) {
    layer.vectors += h;
  }
}

void count_mlp(const job::Model& m, LayerKind kind, Layer& layer) {
  const std::int64_t h = m.hidden;
  const std::int64_t up = m.gated_mlp ? 2 : 1;
  if (kind.mlp == LayerKind::Mlp::dense) {
    layer.weights += (up + 1) * h * m.ffn;
    if (m.biases.mlp) {
      layer.vectors += up * m.ffn + h;
    }
    return;
  }
  const job::Moe& moe = *m.moe;
  const std::int64_t expert = (up + 1) * h * moe.ffn;
  const std::int64_t expert_bias = m.biases.mlp ? up * moe.ffn + h : 0;
  layer.weights += moe.topk * expert + moe.experts * h;
  layer.vectors += moe.topk * expert_bias + (moe.router_bias ? moe.experts : 0);
  layer.idle_experts += (moe.experts - moe.topk) * (expert + expert_bias);
  if (moe.shared_experts > 0) {
    const std::int64_t width = moe.shared_experts * (moe.shared_ffn > 0 ? moe.shared_ffn : moe.ffn);
    layer.weights += (up + 1) * h * width + (moe.shared_gate ? h : 0);
    if (m.biases.mlp) {
      layer.vectors += up * width + h;
    }
  }
}

Layer count_layer(const job::Model& m, LayerKind kind) {
  Layer layer;
  count_attention(m, layer);
  count_mlp(m, kind, layer);
  layer.vectors += (m.parallel_block ? 1 : 2) * norm_vectors(m) * m.hidden;
  return layer;
}

std::int64_t total(const Layer& layer) {
  return layer.weights + layer.idle_experts + layer.vectors;
}

// Forward FLOPs of the two products of attention, all heads, one sequence.
double attention_flops(const job::Model& m, std::int64_t s, bool causal) {
  const int dims = m.mla ? m.mla->qk_nope_dim + m.mla->qk_rope_dim + m.mla->v_dim : 2 * m.head_dim;
  const double square = static_cast<double>(s) * static_cast<double>(s);
  return 2.0 * square * m.heads * dims * (causal ? 0.5 : 1.0);
}

}  // namespace

std::int64_t layer_parameters(const job::Model& model, int layer) {
  return total(count_layer(model, layer_kind(model, layer)));
}

Parameters count_parameters(const job::Model& model) {
  Parameters p;
  p.embedding = model.vocab * model.hidden;
  if (model.positions == job::Positions::learned) {
    p.embedding += model.max_positions * model.hidden;
  }
  p.head = (model.tied_embeddings ? 0 : model.vocab * model.hidden) +
           (model.biases.head ? model.vocab : 0);
  p.final_norm = norm_vectors(model) * model.hidden;
  p.total = p.embedding + p.head + p.final_norm;
  std::int64_t idle = 0;
  for (int i = 0; i < model.layers; ++i) {
    const Layer layer = count_layer(model, layer_kind(model, i));
    p.total += total(layer);
    idle += layer.idle_experts;
  }
  p.active = p.total - idle;
  return p;
}

Flops forward_flops(const job::Model& model, std::int64_t sequence_length, bool causal) {
  double weights = static_cast<double>(model.vocab) * static_cast<double>(model.hidden);
  for (int i = 0; i < model.layers; ++i) {
    weights += static_cast<double>(count_layer(model, layer_kind(model, i)).weights);
  }
  return Flops(2.0 * static_cast<double>(sequence_length) * weights +
               model.layers * attention_flops(model, sequence_length, causal));
}

}  // namespace stepcast::model
