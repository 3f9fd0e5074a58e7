// Models whose layers share more than one residual stream: hyper-connections, attention residuals,
// embeddings and keys of other layers; and DeepSeek-V4's attention and tables of experts.
#include <algorithm>
#include <optional>
#include <vector>

#include "rules.h"
#include "stepcast/model/operators.h"

namespace stepcast::strategy {
namespace {

struct Property {
  bool has;
  const char* key;
};

// The key of the first of these properties that a model has; null: it has none of them.
const char* first_of(std::initializer_list<Property> properties) {
  const auto* const at = std::find_if(properties.begin(), properties.end(),
                                      [](const Property& one) { return one.has; });
  return at == properties.end() ? nullptr : at->key;
}

// A key that changes a layer's blocks in a way that is modelled with one residual stream alone.
const char* other_blocks(const job::Model& m) {
  return first_of({{m.parallel_block, "parallel_block"},
                   {m.post_norm, "post_norm"},
                   {m.sandwich_norms, "sandwich_norms"},
                   {m.output_norms, "output_norms"},
                   {m.encoder_layers > 0, "encoder_layers"},
                   {m.dropout > 0, "dropout"},
                   {m.biases.attention_out, "biases.attention_out"},
                   {m.biases.mlp, "biases.mlp"},
                   {m.moe && m.moe->branch_norms, "moe.branch_norms"},
                   {m.layer_embedding.has_value(), "layer_embedding"}});
}

// Adds faults, at `key`, for all else that is modelled with one residual stream alone.
void plain_stream_only(const job::Job& job, const char* key, Faults& out) {
  if (model::style_of(job).autocast) {
    out.add(key,
            "torch.autocast is modelled around one residual stream; expected 16-bit parameters");
  }
  const auto& schedule = job.parallelism.schedule;
  if (schedule && !schedule->vocabulary.empty()) {
    out.add(
        "parallelism.schedule",
        "a vocabulary spread over stages is modelled behind one residual stream; expected none");
  }
}

// The layer with which each stage but the first begins, where stages take layers in turn.
std::optional<std::vector<int>> first_layers(const job::Job& job) {
  const job::Parallelism& p = job.parallelism;
  const int stages = p.pipeline * p.virtual_pipeline;
  std::vector<int> out;
  if (!p.layout.empty() || p.embedding_as_layer || p.loss_as_layer) {
    return std::nullopt;
  }
  if (!p.layers_per_stage.empty()) {
    int layer = 0;
    for (std::size_t i = 0; i + 1 < p.layers_per_stage.size(); ++i) {
      layer += p.layers_per_stage[i];
      out.push_back(layer);
    }
    return out;
  }
  if (p.split != StageSplit::even) {
    return std::nullopt;
  }
  for (int i = 1; i < stages; ++i) {
    out.push_back(job.model.layers / stages * i);
  }
  return out;
}

}  // namespace

void model_streams(const job::Job& job, Faults& out) {
  const job::Model& m = job.model;
  if (!m.hyper_connections) {
    return;
  }
  constexpr const char* kKey = "model.hyper_connections";
  if (m.hyper_connections->streams < 2) {
    out.add("model.hyper_connections.streams", "streams is missing; expected 2 or more");
  }
  if (const char* other = other_blocks(m)) {
    out.add(kKey, "several residual streams are not modelled together with {}", other);
  } else if (m.residual_block > 0) {
    out.add(kKey,
            "several residual streams are not modelled together with attention_residual_block");
  }
  plain_stream_only(job, kKey, out);
}

void model_compressed(const job::Job& job, Faults& out) {
  const job::Model& m = job.model;
  if (!m.compressed) {
    return;
  }
  constexpr const char* kKey = "model.compressed";
  const job::CompressedAttention& c = *m.compressed;
  if (c.q_lora_rank <= 0 || c.rope_dim <= 0 || c.o_lora_rank <= 0) {
    out.add(kKey,
            "compressed attention lacks sizes; expected q_lora_rank, rope_dim and o_lora_rank");
    return;
  }
  if (c.rope_dim > m.head_dim) {
    out.add("model.compressed.rope_dim",
            "rope_dim {} is more than head_dim {}; expected at most that", c.rope_dim, m.head_dim);
  }
  if (m.heads % c.o_groups != 0) {
    out.add("model.compressed.o_groups", "o_groups {} does not divide heads {}; expected a divisor",
            c.o_groups, m.heads);
  }
  if (m.sliding_window <= 0) {
    out.add(kKey, "every layer of compressed attention has a window; expected a sliding_window");
  }
  if (m.mixers.find_first_not_of("wch") != std::string::npos) {
    out.add("model.mixers", "beside compressed attention layers are of kinds w, c and h");
  }
  const bool chooses = m.mixers.find('c') != std::string::npos;
  if (chooses && !m.indexer) {
    out.add(kKey, "layers c choose entries; expected the sizes of an indexer");
  } else if (m.indexer && (m.indexer->block > 1 || !m.indexer->layers.empty())) {
    out.add("model.indexer", "an indexer of entries has neither blocks nor layers of its own");
  }
  if (m.kv_heads != 1) {
    out.add("model.kv_heads", "one head is every query head's key and value; expected 1");
  }
  if (const char* other = first_of({{m.mla.has_value(), "mla"},
                                    {m.qk_norm, "qk_norm"},
                                    {m.biases.qkv, "biases.qkv"},
                                    {m.biases.attention_out, "biases.attention_out"},
                                    {m.attention_gate, "attention_gate"},
                                    {m.window_heads.has_value(), "window_heads"},
                                    {m.chunked_window, "chunked_window"},
                                    {m.parallel_block, "parallel_block"},
                                    {m.encoder_layers > 0, "encoder_layers"},
                                    {m.positions != job::Positions::rotary, "positions"},
                                    {m.dropout > 0, "dropout"}})) {
    out.add(kKey, "compressed attention is not modelled together with {}", other);
  }
  if (job.parallelism.tensor > 1) {
    // transformers 5.24.0, models/deepseek_v4/configuration_deepseek_v4.py:116, base_model_tp_plan;
    // Megatron-Bridge 0.6.2, recipes/deepseek/h100/deepseek_v4.py:72.
    out.add("parallelism.tensor",
            "compressed attention is whole on every rank, in transformers and in Megatron-Bridge's "
            "recipes; expected 1");
  }
  if (job.parallelism.context > 1) {
    out.add("parallelism.context", "entries of several ranks' tokens are not modelled; expected 1");
  }
  if (!job.workload.documents.empty()) {
    out.add("workload.documents", "entries of packed documents are not modelled; expected none");
  }
  if (job.kernels.fp8_attention) {
    out.add("kernels.fp8_attention", "compressed attention has no kernel in 8 bits");
  }
}

void model_hash(const job::Job& job, Faults& out) {
  const auto& moe = job.model.moe;
  if (!moe || moe->hash_layers == 0) {
    return;
  }
  if (moe->hash_layers > job.model.layers) {
    out.add("model.moe.hash_layers",
            "hash_layers {} is more than the {} layers; expected at most that", moe->hash_layers,
            job.model.layers);
    return;
  }
  const auto stages = first_layers(job);
  if (stages && !stages->empty() && stages->front() < moe->hash_layers) {
    // Megatron-Bridge 0.6.2, models/deepseek/deepseek_v4_bridge.py:128
    out.add("parallelism.pipeline",
            "the first stage, which alone has tokens' numbers, has {} layers; expected the {} "
            "hash_layers or more",
            stages->front(), moe->hash_layers);
  }
}

void model_attention_residuals(const job::Job& job, Faults& out) {
  const job::Model& m = job.model;
  if (m.residual_block == 0) {
    return;
  }
  constexpr const char* kKey = "model.attention_residual_block";
  if (const char* other = other_blocks(m)) {
    out.add(kKey, "attention residuals are not modelled together with {}", other);
  }
  if (m.mtp_layers > 0) {
    out.add("model.mtp_layers",
            "prediction layers behind attention residuals are not modelled; expected 0");
  }
  if (m.mixers.find('-') != std::string::npos || m.mlps.find('-') != std::string::npos) {
    out.add(kKey, "every layer with attention residuals has a mixer and an MLP; expected no '-'");
  }
  plain_stream_only(job, kKey, out);
  if (job.parallelism.pipeline == 1) {
    return;
  }
  // nemo-automodel 0.7.0, components/models/kimi_k3/model.py:1526
  const auto stages = first_layers(job);
  if (!stages) {
    out.add(kKey, "stages hold whole blocks of layers; expected layers_per_stage");
    return;
  }
  for (const int layer : *stages) {
    if (layer % m.residual_block != 0) {
      out.add(
          "parallelism.pipeline",
          "a stage begins with layer {}, inside a block of {} layers; expected whole blocks, by "
          "layers_per_stage",
          layer, m.residual_block);
      return;
    }
  }
}

void model_layer_embedding(const job::Job& job, Faults& out) {
  const job::Model& m = job.model;
  if (!m.layer_embedding) {
    return;
  }
  if (m.layer_embedding->width <= 0) {
    out.add("model.layer_embedding.width", "width is missing; expected an integer");
  }
  if (m.residual_block > 0 || m.parallel_block || m.post_norm || m.encoder_layers > 0) {
    out.add("model.layer_embedding",
            "layers' embeddings are modelled beside plain blocks of a decoder alone");
  }
  if (job.parallelism.pipeline > 1) {
    out.add("parallelism.pipeline",
            "layers' embeddings, which are made ahead of the first, are not sent to stages; "
            "expected 1");
  }
  if (job.parallelism.tensor > 1) {
    out.add("parallelism.tensor",
            "layers' embeddings on tensor ranks are not modelled; expected 1");
  }
  plain_stream_only(job, "model.layer_embedding", out);
}

void model_shared_kv(const job::Job& job, Faults& out) {
  const job::Model& m = job.model;
  if (m.shared_kv_layers == 0) {
    return;
  }
  constexpr const char* kKey = "model.shared_kv_layers";
  if (m.shared_kv_layers >= m.layers) {
    out.add(kKey, "shared_kv_layers {} leave none of the {} layers with keys; expected fewer",
            m.shared_kv_layers, m.layers);
    return;
  }
  if (m.mla || m.compressed || m.indexer || m.encoder_layers > 0 || m.attention_gate) {
    out.add(kKey, "shared keys are modelled of ordinary attention alone");
  }
  if (m.mixers.find_first_not_of("aw") != std::string::npos) {
    out.add(kKey, "shared keys are modelled of layers a and w alone");
  } else {
    // transformers 5.24.0, models/gemma4/configuration_gemma4.py:238
    const auto letter = [&](int layer) {
      return m.mixers.empty() ? 'a' : m.mixers[static_cast<std::size_t>(layer) % m.mixers.size()];
    };
    const int first = m.layers - m.shared_kv_layers;
    for (int layer = first; layer < m.layers; ++layer) {
      bool found = false;
      for (int earlier = 0; earlier < first; ++earlier) {
        found = found || letter(earlier) == letter(layer);
      }
      if (!found) {
        out.add(kKey, "layer {} has no layer of its kind ahead of the {} that share keys", layer,
                m.shared_kv_layers);
        return;
      }
    }
  }
  if (job.parallelism.pipeline > 1) {
    out.add("parallelism.pipeline", "keys of earlier stages' layers are not sent on; expected 1");
  }
}

}  // namespace stepcast::strategy
