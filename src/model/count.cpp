#include "stepcast/model/count.h"

#include "stepcast/model/experts.h"
#include "stepcast/model/operators.h"

namespace stepcast::model {
namespace {

// Closed forms of one layer over all ranks. `weights`: elements of the matrices that every token is
// multiplied with.
struct Layer {
  // Mixer, router, shared experts, and the dense MLP or the k active experts.
  std::int64_t weights = 0;
  std::int64_t memory_weights = 0;  // for the encoder's tokens: k and v of cross-attention
  std::int64_t idle_experts = 0;    // weights and biases of the experts that a token does not use
  std::int64_t vectors = 0;         // norms, biases, convolutions
  // Multiplications of a token beside those with `weights`: between streams, and with weights that
  // the token meets several times.
  std::int64_t further = 0;
};

std::int64_t norm_vectors(const job::Model& m) { return stepcast::norm_vectors(m.norm); }

bool is_encoder_decoder(const job::Model& m) {
  return m.encoder_layers > 0 && m.encoder_layers < m.layers;
}

void count_heads(const job::Model& m, LayerKind kind, Layer& layer) {
  const bool own = kind.mixer == LayerKind::Mixer::window && m.window_heads.has_value();
  const std::int64_t heads = own ? m.window_heads->heads : m.heads;
  const std::int64_t kv_heads = own ? m.window_heads->kv_heads : m.kv_heads;
  const std::int64_t qk = own ? m.window_heads->head_dim : m.head_dim;
  const std::int64_t stated_v = own ? m.window_heads->v_dim : m.v_dim;
  const std::int64_t v = stated_v > 0 ? stated_v : qk;
  const std::int64_t gate = m.attention_gate ? heads * v : 0;
  const bool tied = m.keys_as_values && kind.mixer == LayerKind::Mixer::attention;
  const std::int64_t made = kind.shares_kv ? 0 : kv_heads;
  const std::int64_t qkv = (heads + made) * qk + (tied ? 0 : made * v) + gate;
  layer.weights += m.hidden * qkv + heads * v * m.hidden;
  layer.vectors += m.biases.qkv ? qkv : 0;
  layer.vectors += m.sinks ? heads : 0;
  if (m.qk_norm) {
    layer.vectors += m.qk_norm_whole ? (heads + made) * qk : (kind.shares_kv ? 1 : 2) * qk;
  }
}

void count_latent(const job::Model& m, Layer& layer) {
  const std::int64_t h = m.hidden;
  const job::Mla& a = *m.mla;
  const std::int64_t q = static_cast<std::int64_t>(m.heads) * (a.qk_nope_dim + a.qk_rope_dim);
  const std::int64_t kv = static_cast<std::int64_t>(m.heads) * (a.qk_nope_dim + a.v_dim);
  layer.weights += a.q_lora_rank > 0 ? h * a.q_lora_rank + a.q_lora_rank * q : h * q;
  layer.weights += h * (a.kv_lora_rank + a.qk_rope_dim) + a.kv_lora_rank * kv;
  layer.weights += static_cast<std::int64_t>(m.heads) * a.v_dim * h;
  layer.weights += m.attention_gate ? h * m.heads * a.v_dim : 0;
  layer.vectors += norm_vectors(m) * (a.q_lora_rank + a.kv_lora_rank);
}

// Compressed attention: matrices that tokens meet, norms, biases of places, sinks.
void count_compressed(const job::Model& m, LayerKind kind, Layer& layer) {
  const job::CompressedAttention& a = *m.compressed;
  const std::int64_t h = m.hidden;
  const std::int64_t dim = m.head_dim;
  const std::int64_t all = m.heads * dim;
  layer.weights += h * a.q_lora_rank + a.q_lora_rank * all + h * dim + all * a.o_lora_rank +
                   static_cast<std::int64_t>(a.o_groups) * a.o_lora_rank * h;
  layer.vectors += norm_vectors(m) * (a.q_lora_rank + dim) + (m.sinks ? m.heads : 0);
  const auto entries = [&](std::int64_t width, int rate, int copies) {
    layer.weights += 2 * h * copies * width;
    layer.vectors += rate * copies * width + norm_vectors(m) * width;
  };
  if (kind.mixer == LayerKind::Mixer::heavily_compressed) {
    entries(dim, a.heavy_rate, 1);
  } else if (kind.mixer == LayerKind::Mixer::compressed) {
    const job::Indexer& x = *m.indexer;
    entries(dim, a.sparse_rate, 2);
    entries(x.dim, a.sparse_rate, 2);
    layer.weights += static_cast<std::int64_t>(a.q_lora_rank) * x.heads * x.dim + h * x.heads;
  }
}

void count_indexer(const job::Model& m, Layer& layer) {
  const job::Indexer& x = *m.indexer;
  const std::int64_t latent = m.mla && m.mla->q_lora_rank > 0 ? m.mla->q_lora_rank : m.hidden;
  const int head_weights = x.block > 1 ? 0 : x.heads;
  layer.weights += latent * x.heads * x.dim + m.hidden * (x.dim + head_weights);
  layer.vectors += 2 * x.dim;
}

void count_mamba(const job::Model& m, Layer& layer) {
  const job::Mamba& a = *m.mamba;
  const std::int64_t inner = static_cast<std::int64_t>(a.heads) * a.head_dim;
  const std::int64_t convolved = inner + 2 * static_cast<std::int64_t>(a.groups) * a.state;
  layer.weights += m.hidden * (inner + convolved + a.heads) + inner * m.hidden;
  layer.vectors += convolved * (a.conv + 1) + 3 * a.heads + inner;
}

void count_delta_net(const job::Model& m, Layer& layer) {
  const job::LinearAttention& a = *m.linear;
  const std::int64_t keys = static_cast<std::int64_t>(a.key_heads) * a.key_dim;
  const std::int64_t values = static_cast<std::int64_t>(a.value_heads) * a.value_dim;
  const std::int64_t heads = a.value_heads;
  const std::int64_t convolved = 2 * keys + values;
  layer.weights += m.hidden * convolved + values * m.hidden;
  if (a.elementwise_decay) {
    layer.weights += m.hidden * heads + m.hidden * a.value_dim + a.value_dim * heads * a.key_dim;
    layer.weights +=
        a.whole_gate ? m.hidden * values : m.hidden * a.value_dim + a.value_dim * values;
    layer.vectors += heads + heads * a.key_dim;
  } else {
    layer.weights += m.hidden * (values + 2 * heads);
    layer.vectors += 2 * heads;
  }
  layer.vectors += convolved * a.conv + a.value_dim;
}

bool indexes(const job::Model& m, LayerKind kind) {
  return m.indexer && !kind.chosen_before && !kind.attends_all;
}

void count_mixer(const job::Model& m, LayerKind kind, Layer& layer) {
  if (kind.mixer == LayerKind::Mixer::mamba) {
    return count_mamba(m, layer);
  }
  if (kind.mixer == LayerKind::Mixer::linear) {
    return count_delta_net(m, layer);
  }
  if (m.compressed) {
    return count_compressed(m, kind, layer);
  }
  if (m.mla) {
    count_latent(m, layer);
  } else {
    count_heads(m, kind, layer);
  }
  if (indexes(m, kind)) {
    count_indexer(m, layer);
  }
  layer.vectors += m.biases.attention_out ? m.hidden : 0;
}

void count_cross(const job::Model& m, Layer& layer) {
  const std::int64_t v = m.v_dim > 0 ? m.v_dim : m.head_dim;
  const std::int64_t q = static_cast<std::int64_t>(m.heads) * m.head_dim;
  const std::int64_t kv = static_cast<std::int64_t>(m.kv_heads) * (m.head_dim + v);
  layer.weights += m.hidden * q + m.heads * v * m.hidden;
  layer.memory_weights += m.hidden * kv;
  layer.vectors += (m.biases.qkv ? q + kv : 0) + (m.biases.attention_out ? m.hidden : 0);
}

void count_mlp(const job::Model& m, LayerKind kind, Layer& layer) {
  const std::int64_t h = m.hidden;
  const std::int64_t up = m.gated_mlp ? 2 : 1;
  if (kind.mlp == LayerKind::Mlp::dense) {
    const std::int64_t width = dense_width(m, kind);
    layer.weights += (up + 1) * h * width;
    if (m.biases.mlp) {
      layer.vectors += up * width + h;
    }
    return;
  }
  const job::Moe& moe = *m.moe;
  const std::int64_t routed = routed_width(m);
  const std::int64_t expert = (up + 1) * routed * moe.ffn;
  const std::int64_t expert_bias = m.biases.mlp ? up * moe.ffn + routed : 0;
  layer.weights += moe.topk * expert + moe.experts * h + 2 * h * moe.latent;
  if (moe.latent > 0 && m.biases.mlp) {
    layer.vectors += moe.latent + h;
  }
  layer.vectors += moe.topk * expert_bias + (moe.router_bias && !kind.hashed ? moe.experts : 0);
  layer.vectors += moe.latent > 0 && moe.latent_norm ? norm_vectors(m) * moe.latent : 0;
  if (moe.branch_norms) {  // of what routed experts read and return, and of what shared ones do
    layer.vectors += (moe.shared_experts > 0 ? 3 : 2) * norm_vectors(m) * h + h + moe.experts;
  }
  layer.idle_experts += (moe.experts - moe.topk) * (expert + expert_bias);
  if (moe.shared_experts > 0) {
    const std::int64_t width = moe.shared_experts * (moe.shared_ffn > 0 ? moe.shared_ffn : moe.ffn);
    layer.weights += (up + 1) * h * width + (moe.shared_gate ? h : 0);
    if (m.biases.mlp) {
      layer.vectors += up * width + h;
    }
  }
}

// Weights of residual streams: of hyper-connections, and of attention over earlier ones.
void count_streams(const job::Model& m, LayerKind kind, std::int64_t blocks, Layer& layer) {
  const std::int64_t h = m.hidden;
  if (m.hyper_connections) {
    const std::int64_t n = stream_count(m);
    layer.weights += blocks * n * (n + 2) * n * h;
    layer.vectors += blocks * (n * (n + 2) + 3);
    layer.further += blocks * n * n * h;
    if (kind.prediction) {  // its sum of streams; streams are projected one by one
      layer.weights += n * n * h;
      layer.vectors += n + 1;
      layer.further += (n - 1) * h * h;
    }
  }
  if (m.residual_block > 0) {
    layer.vectors += 2 * 2 * h;  // the first layer's too, which mixes nothing ahead of attention
  }
}

Layer count_layer(const job::Model& m, LayerKind kind) {
  Layer layer;
  std::int64_t blocks = 0;
  if (kind.mixer != LayerKind::Mixer::none) {
    count_mixer(m, kind, layer);
    ++blocks;
  }
  if (kind.cross) {
    count_cross(m, layer);
    ++blocks;
  }
  if (kind.mlp != LayerKind::Mlp::none) {
    count_mlp(m, kind, layer);
    ++blocks;
  }
  if (m.parallel_block && !m.parallel_norms && blocks == 2) {
    blocks = 1;
  }
  std::int64_t norms = blocks * (m.sandwich_norms ? 2 : 1);
  if (kind.prediction) {
    layer.weights += 2 * m.hidden * m.hidden;
    norms += m.post_norm ? 2 : 3;
  }
  count_streams(m, kind, blocks, layer);
  if (m.layer_embedding && !kind.prediction) {
    layer.weights += 2 * m.hidden * m.layer_embedding->width;
    ++norms;
  }
  layer.vectors += norms * norm_vectors(m) * m.hidden;
  return layer;
}

std::int64_t total(const Layer& layer) {
  return layer.weights + layer.memory_weights + layer.idle_experts + layer.vectors;
}

// Scores of one sequence and head that a mixer computes.
double pairs(const job::Model& m, LayerKind kind, double s, bool causal) {
  const bool windowed = kind.mixer == LayerKind::Mixer::window;
  const bool sparse = m.indexer && !kind.attends_all;
  const auto window = static_cast<double>(windowed ? m.sliding_window
                                          : sparse ? m.indexer->topk
                                                   : 0);
  if (window <= 0 || window >= s) {
    return s * s * (causal ? 0.5 : 1.0);
  }
  if (m.chunked_window) {
    return s * window * (causal ? 0.5 : 1.0);
  }
  return causal ? s * window - window * window / 2 : s * window;
}

// Forward FLOPs between the projections of a layer's mixer, one sequence.
double mixer_flops(const job::Model& m, LayerKind kind, double s, bool causal) {
  if (kind.mixer == LayerKind::Mixer::none) {
    return 0;
  }
  if (kind.mixer == LayerKind::Mixer::mamba) {
    const job::Mamba& a = *m.mamba;
    const double inside =
        static_cast<double>(a.chunk) *
        (static_cast<double>(a.groups) * a.state + static_cast<double>(a.heads) * a.head_dim);
    return 2.0 * s * (inside + 2.0 * a.heads * a.state * a.head_dim);
  }
  if (kind.mixer == LayerKind::Mixer::linear) {
    const job::LinearAttention& a = *m.linear;
    const double inside = 2.0 * a.chunk * (3.0 * a.key_dim + 2.0 * a.value_dim);
    return s * a.value_heads * (inside + 6.0 * a.key_dim * a.value_dim);
  }
  if (m.compressed) {
    const auto length = static_cast<std::int64_t>(s);
    const bool sparse = kind.mixer == LayerKind::Mixer::compressed;
    const double indexed = sparse ? 2.0 * m.indexer->heads * m.indexer->dim *
                                        entry_pairs(length, m.compressed->sparse_rate, length)
                                  : 0;
    return indexed + 4.0 * m.heads * m.head_dim * compressed_pairs(m, kind, length);
  }
  const double scores = pairs(m, kind, s, causal && !kind.encoder);
  const double chosen = indexes(m, kind) ? s * s * (causal ? 1.0 : 2.0) * m.indexer->heads *
                                               static_cast<double>(m.indexer->dim)
                                         : 0;
  if (m.mla) {
    return chosen +
           2.0 * scores * m.heads * (m.mla->qk_nope_dim + m.mla->qk_rope_dim + m.mla->v_dim);
  }
  if (kind.mixer == LayerKind::Mixer::window && m.window_heads) {
    const job::WindowHeads& w = *m.window_heads;
    return chosen + 2.0 * scores * w.heads * (w.head_dim + (w.v_dim > 0 ? w.v_dim : w.head_dim));
  }
  return chosen + 2.0 * scores * m.heads * (m.head_dim + (m.v_dim > 0 ? m.v_dim : m.head_dim));
}

double layer_flops(const job::Model& m, LayerKind kind, std::int64_t sequence_length, bool causal) {
  const auto memory = static_cast<double>(encoder_sequence(m, sequence_length));
  const double s = kind.encoder ? memory : static_cast<double>(sequence_length);
  const Layer layer = count_layer(m, kind);
  double flops = 2.0 * (s * static_cast<double>(layer.weights + layer.further) +
                        memory * static_cast<double>(layer.memory_weights)) +
                 mixer_flops(m, kind, s, causal);
  if (kind.cross) {
    flops += 2.0 * s * memory * m.heads * (m.head_dim + (m.v_dim > 0 ? m.v_dim : m.head_dim));
  }
  if (kind.prediction) {  // its logits use the model's own output matrix
    flops += 2.0 * s * static_cast<double>(m.vocab) * static_cast<double>(m.hidden);
  }
  return flops;
}

}  // namespace

std::int64_t layer_parameters(const job::Model& model, int layer) {
  const LayerKind kind = layer_kind(model, layer);
  return kind.repeats ? 0 : total(count_layer(model, kind));
}

Parameters count_parameters(const job::Model& model) {
  Parameters p;
  const std::int64_t h = model.hidden;
  const int stacks = is_encoder_decoder(model) ? 2 : 1;
  p.embedding = (model.vocab + model.token_types) * h;
  if (model.positions == job::Positions::learned) {
    p.embedding += model.max_positions * h;
  } else if (model.positions == job::Positions::relative) {
    p.embedding += std::int64_t{stacks} * model.heads * model.relative_buckets;
  }
  if (model.embedding_norm) {
    p.embedding += norm_vectors(model) * h;
  }
  p.head = (model.tied_embeddings ? 0 : model.vocab * h) + (model.biases.head ? model.vocab : 0);
  if (model.head_transform) {
    p.head += h * h + h + norm_vectors(model) * h;
  }
  p.final_norm = (model.post_norm ? stacks - 1 : stacks) * norm_vectors(model) * h;
  if (model.hyper_connections) {
    const std::int64_t n = stream_count(model);
    p.head += n * (n * h + 1) + 1;
  }
  if (model.residual_block > 0) {
    p.head += 2 * h;
  }
  if (model.layer_embedding) {
    const job::LayerEmbedding& x = *model.layer_embedding;
    const std::int64_t columns = model.layers * x.width;
    p.embedding += ((x.vocab > 0 ? x.vocab : model.vocab) + h) * columns + x.width;
  }
  p.total = p.embedding + p.head + p.final_norm;
  std::int64_t idle = 0;
  for (int i = 0; i < layer_count(model); ++i) {
    const LayerKind kind = layer_kind(model, i);
    if (kind.repeats) {
      continue;
    }
    const Layer layer = count_layer(model, kind);
    p.total += total(layer);
    idle += layer.idle_experts;
  }
  p.active = p.total - idle;
  return p;
}

Flops forward_only_flops(const job::Model& model, std::int64_t sequence_length) {
  double flops = 0;
  for (int i = 0; i < layer_count(model); ++i) {
    if (layer_kind(model, i).mixer != LayerKind::Mixer::compressed) {
      continue;
    }
    const job::Indexer& x = *model.indexer;
    const job::CompressedAttention& a = *model.compressed;
    const double weights = static_cast<double>(a.q_lora_rank) * x.heads * x.dim +
                           static_cast<double>(model.hidden) * (x.heads + 4.0 * x.dim);
    flops += 2.0 * (static_cast<double>(sequence_length) * weights +
                    static_cast<double>(x.heads) * x.dim *
                        entry_pairs(sequence_length, a.sparse_rate, sequence_length));
  }
  return Flops(flops);
}

Flops forward_flops(const job::Model& model, std::int64_t sequence_length, bool causal) {
  const auto s = static_cast<double>(sequence_length);
  double head = static_cast<double>(model.vocab) * static_cast<double>(model.hidden);
  if (model.head_transform) {
    head += static_cast<double>(model.hidden) * static_cast<double>(model.hidden);
  }
  if (model.hyper_connections) {
    const double n = stream_count(model);
    head += n * n * static_cast<double>(model.hidden);
  }
  if (model.layer_embedding) {
    head += static_cast<double>(model.layers * model.layer_embedding->width) *
            static_cast<double>(model.hidden);
  }
  double flops = 2.0 * s * head;
  for (int i = 0; i < layer_count(model); ++i) {
    flops += layer_flops(model, layer_kind(model, i), sequence_length, causal);
  }
  return Flops(flops);
}

}  // namespace stepcast::model
