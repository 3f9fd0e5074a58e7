// Which keys of a model contradict each other; their ranges are checked in config.
#include <algorithm>

#include "rules.h"

namespace stepcast::strategy {
namespace {

void need_size(bool there, const char* key, Faults& out) {
  if (!there) {
    out.add(fmt::format("model.{}", key), "'model.{}' is missing; expected an integer", key);
  }
}

bool names_letter(const std::string& letters, char letter) {
  return letters.find(letter) != std::string::npos;
}

}  // namespace

void model_linear(const job::Job& job, Faults& out) {
  if (!job.model.linear) {
    return;
  }
  const job::LinearAttention& linear = *job.model.linear;
  need_size(linear.key_heads > 0, "linear.key_heads", out);
  need_size(linear.value_heads > 0, "linear.value_heads", out);
  need_size(linear.key_dim > 0, "linear.key_dim", out);
  need_size(linear.value_dim > 0, "linear.value_dim", out);
  if (linear.key_heads > 0 && linear.value_heads % linear.key_heads != 0) {
    out.add("model.linear.value_heads",
            "value_heads {} is not a multiple of key_heads {}; expected one", linear.value_heads,
            linear.key_heads);
  }
}

void model_mamba(const job::Job& job, Faults& out) {
  if (!job.model.mamba) {
    return;
  }
  const job::Mamba& mamba = *job.model.mamba;
  need_size(mamba.heads > 0, "mamba.heads", out);
  need_size(mamba.head_dim > 0, "mamba.head_dim", out);
  need_size(mamba.state > 0, "mamba.state", out);
  if (mamba.heads % mamba.groups != 0) {
    out.add("model.mamba.groups", "groups {} does not divide heads {}; expected a divisor",
            mamba.groups, mamba.heads);
  }
}

void model_indexer(const job::Job& job, Faults& out) {
  if (!job.model.indexer) {
    return;
  }
  need_size(job.model.indexer->heads > 0, "indexer.heads", out);
  need_size(job.model.indexer->dim > 0, "indexer.dim", out);
  need_size(job.model.indexer->topk > 0, "indexer.topk", out);
  const job::Indexer& indexer = *job.model.indexer;
  const std::size_t shared = indexer.layers.find('s');
  if (shared != std::string::npos && indexer.layers.find('i') > shared) {
    out.add("model.indexer.layers",
            "layer {} attends to keys that no layer before it chose; expected i first", shared);
  }
  if (indexer.block > 0 && indexer.topk % indexer.block != 0) {
    out.add("model.indexer.topk", "topk {} is not a multiple of block {}; expected whole blocks",
            indexer.topk, indexer.block);
  }
}

void model_widths(const job::Job& job, Faults& out) {
  const job::Model& m = job.model;
  if (m.ffns.empty()) {
    return;
  }
  if (m.ffns.size() > static_cast<std::size_t>(m.layers)) {
    out.add("model.ffns", "ffns has {} widths for {} layers; expected at most one per layer",
            m.ffns.size(), m.layers);
    return;
  }
  for (int layer = 0; layer < m.layers; ++layer) {
    const bool dense = model::layer_kind(m, layer).mlp == model::LayerKind::Mlp::dense;
    if (dense && m.ffns[static_cast<std::size_t>(layer) % m.ffns.size()] <= 0) {
      out.add("model.ffns", "layer {} has a dense MLP of width 0; expected a width, or - in mlps",
              layer);
      return;
    }
  }
}

void model_values(const job::Job& job, Faults& out) {
  const job::Model& m = job.model;
  for (const auto& [key, layers] : {std::pair{"model.bf16_start_layers", m.bf16_start_layers},
                                    std::pair{"model.bf16_end_layers", m.bf16_end_layers}}) {
    if (layers > m.layers) {
      out.add(key, "{} layers of {} cannot stay in 16 bits; expected at most all", layers,
              m.layers);
    }
  }
  if (m.value_norm && (!m.qk_norm || m.mla)) {
    out.add("model.value_norm",
            "a norm of values is modelled beside that of queries and keys; expected qk_norm, and "
            "no mla");
  }
  if (m.keys_as_values && !m.value_norm) {
    out.add("model.keys_as_values",
            "values that are keys before their norm are normed by themselves; expected value_norm");
  }
  if (m.keys_as_values && m.v_dim > 0 && m.v_dim != m.head_dim) {
    out.add("model.v_dim", "values that are keys have their head_dim {}; expected that",
            m.head_dim);
  }
  if (m.keys_as_values && m.encoder_layers > 0) {
    out.add("model.keys_as_values", "encoders whose keys serve as values are not modelled");
  }
}

void model_branches(const job::Job& job, Faults& out) {
  const auto& moe = job.model.moe;
  if (!moe || !moe->branch_norms) {
    return;
  }
  if (moe->shared_experts == 0) {
    out.add("model.moe.branch_norms",
            "norms of routed and of shared experts need both kinds; expected shared_experts");
  }
  if (job.parallelism.overlap.shared_expert) {
    // Megatron-Bridge 0.6.2, models/gemma/gemma4_provider.py:56
    out.add("parallelism.overlap.shared_expert",
            "shared experts with norms of their own do not run beside the dispatch");
  }
}

void model_window_heads(const job::Job& job, Faults& out) {
  if (!job.model.window_heads) {
    return;
  }
  const job::WindowHeads& window = *job.model.window_heads;
  need_size(window.heads > 0, "window_heads.heads", out);
  need_size(window.kv_heads > 0, "window_heads.kv_heads", out);
  need_size(window.head_dim > 0, "window_heads.head_dim", out);
  if (window.kv_heads > 0 && window.heads % window.kv_heads != 0) {
    out.add("model.window_heads.kv_heads",
            "kv_heads {} does not divide heads {}; expected a divisor", window.kv_heads,
            window.heads);
  }
}

// Each letter needs what it names.
void model_mixers(const job::Job& job, Faults& out) {
  const job::Model& m = job.model;
  if (names_letter(m.mixers, 'w') && m.sliding_window <= 0) {
    out.add("model.mixers", "mixers name window layers (w); expected a sliding_window");
  }
  if (names_letter(m.mixers, 'l') && !m.linear) {
    out.add("model.mixers", "mixers name linear attention (l); expected its sizes under linear");
  }
  if ((names_letter(m.mixers, 'c') || names_letter(m.mixers, 'h')) && !m.compressed) {
    out.add("model.mixers",
            "mixers name compressed attention (c, h); expected its sizes under compressed");
  }
  if (names_letter(m.mixers, 'm') && !m.mamba) {
    out.add("model.mixers", "mixers name Mamba layers (m); expected their sizes under mamba");
  }
}

void model_mlps(const job::Job& job, Faults& out) {
  if (names_letter(job.model.mlps, 'e') && !job.model.moe) {
    out.add("model.mlps", "mlps name experts (e); expected their sizes under moe");
  }
}

void model_letters(const job::Job& job, Faults& out) {
  const job::Model& m = job.model;
  for (const auto& [key, letters] : {std::pair{"mixers", &m.mixers}, {"mlps", &m.mlps}}) {
    if (letters->size() > static_cast<std::size_t>(m.layers)) {
      out.add(fmt::format("model.{}", key),
              "{} has {} letters for {} layers; expected at most one per layer", key,
              letters->size(), m.layers);
    }
  }
}

void model_empty_layers(const job::Job& job, Faults& out) {
  const job::Model& m = job.model;
  if (!names_letter(m.mixers, '-') || !names_letter(m.mlps, '-')) {
    return;
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(m.layers); ++i) {
    if (m.mixers[i % m.mixers.size()] == '-' && m.mlps[i % m.mlps.size()] == '-') {
      out.add("model.mlps", "layer {} has neither a mixer nor an MLP; expected one of them", i);
      return;
    }
  }
}

void model_encoder(const job::Job& job, Faults& out) {
  if (job.model.encoder_layers > job.model.layers) {
    out.add("model.encoder_layers",
            "encoder_layers {} is more than the {} layers; expected at most that",
            job.model.encoder_layers, job.model.layers);
  }
}

void model_predictions(const job::Job& job, Faults& out) {
  if (job.model.encoder_layers > 0 && job.model.mtp_layers > 0) {
    out.add("model.mtp_layers", "prediction layers after an encoder are not modelled; expected 0");
  }
}

void model_chunked_window(const job::Job& job, Faults& out) {
  if (job.model.chunked_window && job.model.sliding_window <= 0) {
    out.add("model.chunked_window", "chunked_window without a window; expected a sliding_window");
  }
}

void model_heads(const job::Job& job, Faults& out) {
  const job::Model& m = job.model;
  if (m.heads % m.kv_heads != 0) {
    out.add("model.kv_heads", "kv_heads {} does not divide heads {}; expected a divisor",
            m.kv_heads, m.heads);
  }
}

void model_experts(const job::Job& job, Faults& out) {
  const auto& moe = job.model.moe;
  if (moe && moe->topk > moe->experts) {
    out.add("model.moe.topk", "topk {} is more than the {} experts; expected at most that",
            moe->topk, moe->experts);
  }
  if (moe && job.moe.one_hot && !job.moe.capacity_factor) {
    out.add("moe.one_hot", "masks fill buffers of a stated size; expected moe.capacity_factor");
  }
  if (moe && job.moe.pad_to_capacity && !job.moe.capacity_factor) {
    out.add("moe.pad_to_capacity",
            "experts are padded to a stated capacity; expected moe.capacity_factor");
  }
  if (moe && job.moe.one_hot && job.moe.dispatcher != job::MoeRuntime::Dispatcher::alltoall) {
    out.add("moe.one_hot",
            "masks lay out each expert's buffer, which dispatcher {} does not send; expected "
            "alltoall",
            to_string(job.moe.dispatcher));
  }
  if (moe && job.moe.every_token && job.parallelism.expert > 1) {
    // transformers 5.23.0, models/llama4/modeling_llama4.py:165: rows are repeated, never sent.
    out.add("moe.every_token",
            "experts that compute every token are sent none; expected parallelism.expert 1");
  }
  if (moe && job.moe.every_token && (job.moe.capacity_factor || job.moe.one_hot)) {
    out.add("moe.every_token",
            "experts that compute every token have no capacity; expected neither "
            "moe.capacity_factor nor moe.one_hot");
  }
  if (moe && moe->latent > 0 && job.parallelism.overlap.shared_expert) {
    // megatron-core 0.16.1, transformer/moe/moe_layer.py:266
    out.add("parallelism.overlap.shared_expert",
            "shared experts do not run beside messages of tokens in a latent space");
  }
  if (!moe || moe->router_groups == 1) {
    return;
  }
  if (moe->experts % moe->router_groups != 0) {
    out.add("model.moe.router_groups",
            "router_groups {} does not divide the {} experts; expected a divisor",
            moe->router_groups, moe->experts);
  } else if (moe->router_group_topk > moe->router_groups) {
    out.add("model.moe.router_group_topk",
            "router_group_topk {} is more than the {} router_groups; expected at most that",
            moe->router_group_topk, moe->router_groups);
  } else if (moe->topk > moe->experts / moe->router_groups * moe->router_group_topk) {
    out.add("model.moe.topk", "topk {} is more than the {} experts of {} groups", moe->topk,
            moe->experts / moe->router_groups * moe->router_group_topk, moe->router_group_topk);
  }
}

void model_dense_layers(const job::Job& job, Faults& out) {
  const auto& moe = job.model.moe;
  if (moe && moe->dense_layers > job.model.layers) {
    out.add("model.moe.dense_layers",
            "dense_layers {} is more than the {} layers; expected at most that", moe->dense_layers,
            job.model.layers);
  }
}

void model_output_norms(const job::Job& job, Faults& out) {
  const job::Model& m = job.model;
  if (m.output_norms && (m.sandwich_norms || m.post_norm || m.parallel_block)) {
    out.add("model.output_norms",
            "a block whose result alone has a norm has no other, and does not run beside another; "
            "expected output_norms without {}",
            m.sandwich_norms ? "sandwich_norms"
            : m.post_norm    ? "post_norm"
                             : "parallel_block");
  }
}

void model_positions(const job::Job& job, Faults& out) {
  const job::Model& m = job.model;
  const std::int64_t length = job.workload.sequence_length;
  if (m.positions == job::Positions::learned && length > m.max_positions) {
    out.add("workload.sequence_length",
            "sequence_length {} is beyond the model's {} learned positions; expected at most that",
            length, m.max_positions);
  }
}

}  // namespace stepcast::strategy
