// Families with layers that are not attention: Mamba-2, the gated delta rule.
#include <algorithm>
#include <array>

#include "huggingface_config.h"

namespace stepcast::config {

using job::Model;

namespace {

void mamba_shapes(Config& c, Model& m) {
  job::Mamba mamba;
  c.integer(mamba.heads, {"mamba_num_heads", "num_heads"});
  c.integer(mamba.head_dim, {"mamba_head_dim", "head_dim"});
  c.integer(mamba.state, {"ssm_state_size", "state_size"});
  c.integer(mamba.groups, {"n_groups"}, 1);
  c.integer(mamba.conv, {"conv_kernel"}, 4);
  c.integer(mamba.chunk, {"chunk_size"}, 256);
  m.mamba = mamba;
  c.seen({"expand"});
  if (c.boolean("mamba_proj_bias", false) || c.boolean("use_bias", false)) {
    c.refuse("use_bias", "biases in a Mamba layer's projections");
  }
  if (!c.boolean("use_conv_bias", true)) {
    c.refuse("use_conv_bias", "a convolution without bias");
  }
}

// Layers with one block each: M is Mamba-2, * attention, - MLP, E experts.
void nemotron_blocks(Config& c, Model& m) {
  std::string blocks = c.word("hybrid_override_pattern", "");
  if (const Value* list = c.find("layers_block_type"); blocks.empty() && list != nullptr) {
    for (const Value& item : list->items) {
      const bool mamba = is_word(item, "mamba") || is_word(item, "linear_attention");
      const bool attention = is_word(item, "attention") || is_word(item, "full_attention");
      blocks += mamba ? 'M' : attention ? '*' : is_word(item, "moe") ? 'E' : '-';
      if (blocks.back() == '-' && !is_word(item, "mlp")) {
        c.refuse("layers_block_type", "a layer that is not mamba, attention, moe or mlp");
      }
    }
  }
  std::string mixers;
  std::string mlps;
  for (const char block : blocks) {
    mixers += block == 'M' ? 'm' : block == '*' ? 'a' : '-';
    mlps += block == '-' ? 'd' : block == 'E' ? 'e' : '-';
  }
  c.integer(m.layers, {"num_hidden_layers"}, static_cast<std::int64_t>(blocks.size()));
  if (blocks.empty() || static_cast<int>(blocks.size()) != m.layers) {
    c.refuse("hybrid_override_pattern", "a pattern of another length than num_hidden_layers");
  }
  m.mixers = repeated(mixers);
  m.mlps = repeated(mlps);
}

void nemotron_h(Config& c, Model& m) {
  m.norm = job::Norm::rms;
  m.positions = job::Positions::none;
  nemotron_blocks(c, m);
  c.integer(m.hidden, {"hidden_size"});
  c.integer(m.heads, {"num_attention_heads"});
  c.integer(m.kv_heads, {"num_key_value_heads"}, m.heads);
  c.integer(m.head_dim, {"attention_head_dim", "head_dim"}, m.heads > 0 ? m.hidden / m.heads : 0);
  c.integer(m.ffn, {"intermediate_size"});
  c.integer(m.vocab, {"vocab_size"});
  m.tied_embeddings = c.boolean("tie_word_embeddings", false);
  attention_biases(c, m, false);
  m.biases.mlp = c.boolean("mlp_bias", false);
  dropouts(c, m, {"hidden_dropout", "attention_dropout"}, 0);
  read_activation(c, m, "mlp_hidden_act", false);
  c.seen({"max_position_embeddings", "sliding_window", "mamba_hidden_act", "rope_theta"});
  mamba_shapes(c, m);
  prediction_layers(c, m, {"num_nextn_predict_layers"});
  if (const Value* blocks = c.find("mtp_layers_block_type"); blocks != nullptr) {
    const bool whole =
        blocks->items.size() == 2 &&
        (is_word(blocks->items[0], "attention") || is_word(blocks->items[0], "full_attention")) &&
        is_word(blocks->items[1], "moe");
    if (!whole) {
      c.refuse("mtp_layers_block_type", "prediction layers that are not attention and experts");
    }
  }
  if (const Value* pattern = c.find("mtp_hybrid_override_pattern"); pattern != nullptr) {
    if (!is_word(*pattern, "*E")) {
      c.refuse("mtp_hybrid_override_pattern",
               "prediction layers that are not attention and experts");
    }
  }
  c.seen({"moe_shared_expert_overlap"});  // how it runs
  if (m.mlps.find('e') != std::string::npos) {
    job::Moe moe;
    c.integer(moe.experts, {"n_routed_experts"});
    c.integer(moe.topk, {"num_experts_per_tok"});
    c.integer(moe.ffn, {"moe_intermediate_size"});
    c.integer(moe.shared_experts, {"n_shared_experts"}, 0);
    c.integer(moe.shared_ffn, {"moe_shared_expert_intermediate_size"}, 0);
    c.integer(moe.latent, {"moe_latent_size"}, 0);
    moe.router_bias = true;
    m.moe = moe;
  }
}

// The blocks of the layers of Llama-Nemotron (megatron-core 0.16.1,
// transformer/heterogeneous/heterogeneous_config.py:75, ffn_mult_to_intermediate_size).
class Blocks {
 public:
  Blocks(Config& c, Model& m) : c_(c), m_(m) {}

  void add(const Value& layer) {
    const Value* attention = layer.find("attention");
    const Value* ffn = layer.find("ffn");
    if (attention == nullptr || ffn == nullptr) {
      c_.reader().fault(layer, "a layer of 'block_configs' has no 'attention' or no 'ffn'");
      return;
    }
    add_attention(*attention);
    add_mlp(*ffn);
  }

  // Sets what the layers have in common and their differences.
  void finish() {
    m_.mixers = repeated(mixers_);
    m_.mlps = mlps_.find('-') == std::string::npos ? "" : repeated(mlps_);
    m_.ffn = m_.ffns.empty() ? 0 : *std::max_element(m_.ffns.begin(), m_.ffns.end());
    m_.kv_heads = m_.heads / std::max(group_, 1);
  }

 private:
  static constexpr std::int64_t kWidths = 256;  // widths are multiples of it

  void refuse_replacements(Config& block) {
    if (block.boolean("replace_with_linear", false)) {
      block.refuse("replace_with_linear", "a block that is a single product");
    }
    if (block.find("sparsify") != nullptr) {
      block.refuse("sparsify", "a sparse block");
    }
  }

  void add_attention(const Value& doc) {
    Config block(c_.reader(), doc);
    const bool none = block.boolean("no_op", false);
    mixers_ += none ? '-' : 'a';
    refuse_replacements(block);
    for (const char* key : {"window_length", "num_sink_tokens"}) {
      if (block.find(key) != nullptr) {
        block.refuse(key, "windows in some layers");
      }
    }
    int group = 0;
    block.integer(group, {"n_heads_in_group"}, 0);
    if (!none && group != group_ && group_ != 0) {
      block.refuse("n_heads_in_group", "layers with unlike numbers of key-value heads");
    }
    group_ = none ? group_ : group;
    block.seen({"unshifted_sink", "use_prefill_window_in_sink_attention"});  // of windows
    block.report_unknown();
  }

  void add_mlp(const Value& doc) {
    Config block(c_.reader(), doc);
    const bool none = block.boolean("no_op", false);
    mlps_ += none ? '-' : 'd';
    refuse_replacements(block);
    std::int64_t width = 0;
    if (const Value* factor = block.find("ffn_mult"); factor != nullptr && !none) {
      const double times = read_number(c_.reader(), *factor, 0, 1000).value_or(0);
      const auto exact = static_cast<std::int64_t>(2 * times * static_cast<double>(m_.hidden) / 3);
      width = (exact + kWidths - 1) / kWidths * kWidths;
    }
    m_.ffns.push_back(width);
    block.report_unknown();
  }

  Config& c_;
  Model& m_;
  std::string mixers_;
  std::string mlps_;
  int group_ = 0;  // query heads for each key-value head
};

void nemotron_nas(Config& c, Model& m) {
  m.norm = job::Norm::rms;
  m.positions = job::Positions::rotary;
  m.gated_mlp = true;
  c.integer(m.layers, {"num_hidden_layers"});
  c.integer(m.hidden, {"hidden_size"});
  c.integer(m.heads, {"num_attention_heads"});
  c.integer(m.head_dim, {"head_dim"}, m.heads > 0 ? m.hidden / m.heads : 0);
  c.integer(m.vocab, {"vocab_size"});
  m.tied_embeddings = c.boolean("tie_word_embeddings", false);
  attention_biases(c, m, false);
  m.biases.mlp = c.boolean("mlp_bias", false);
  m.dropout = c.number("attention_dropout", 0);
  read_activation(c, m, "hidden_act", true);
  c.seen({"max_position_embeddings", "intermediate_size", "num_key_value_heads"});
  const Value* layers = c.find("block_configs");
  if (layers == nullptr || static_cast<int>(layers->items.size()) != m.layers) {
    return c.refuse("block_configs", "another number of blocks than num_hidden_layers");
  }
  Blocks blocks(c, m);
  for (const Value& layer : layers->items) {
    blocks.add(layer);
  }
  blocks.finish();
}

void delta_net_shapes(Config& c, Model& m) {
  job::LinearAttention linear;
  c.integer(linear.key_heads, {"linear_num_key_heads"});
  c.integer(linear.value_heads, {"linear_num_value_heads"});
  c.integer(linear.key_dim, {"linear_key_head_dim"});
  c.integer(linear.value_dim, {"linear_value_head_dim"});
  c.integer(linear.conv, {"linear_conv_kernel_dim"}, 4);
  m.linear = linear;
}

// Three of four layers run the gated delta rule, and the fourth gated attention.
void qwen3_next(Config& c, Model& m) {
  if (const Value* dense = c.find("mlp_only_layers"); dense != nullptr && !dense->items.empty()) {
    c.refuse("mlp_only_layers", "a list of dense layers");
  }
  llama_shapes(c, m);
  m.qk_norm = true;
  m.attention_gate = c.boolean("attn_output_gate", true);
  attention_biases(c, m, false);
  delta_net_shapes(c, m);
  int interval = 4;
  c.integer(interval, {"full_attention_interval"}, 4);
  const auto listed =
      layer_letters(c, "layer_types", {{"linear_attention", 'l'}, {"full_attention", 'a'}});
  m.mixers =
      listed.value_or(std::string(static_cast<std::size_t>(std::max(interval, 1) - 1), 'l') + "a");
  prediction_layers(c, m, {"mtp_num_hidden_layers"});
  if (c.boolean("mtp_use_dedicated_embeddings", false)) {
    c.refuse("mtp_use_dedicated_embeddings", "prediction layers with embeddings of their own");
  }
}

void qwen3_next_moe(Config& c, Model& m) {
  qwen3_next(c, m);
  qwen_moe(c, m, true);
}

// Layers of Kimi Delta Attention and of latent attention without rotary positions.
void kimi_linear(Config& c, Model& m) {
  deepseek(c, m);
  job::Moe moe = m.moe.value_or(job::Moe{});
  c.integer(moe.experts, {"num_experts", "n_routed_experts"});
  c.integer(moe.topk, {"num_experts_per_token", "num_experts_per_tok"});
  c.integer(moe.ffn, {"moe_intermediate_size"});
  c.integer(moe.shared_experts, {"num_shared_experts", "n_shared_experts"}, 0);
  c.integer(moe.dense_layers, {"first_k_dense_replace"}, 0);
  c.integer(moe.every, {"moe_layer_freq"}, 1);
  moe.router_bias = true;
  m.moe = moe;
  // Kimi K3 (nemo-automodel 0.7.0, components/models/kimi_k3).
  c.integer(m.moe->latent, {"routed_expert_hidden_size"}, 0);
  m.moe->latent_norm = c.boolean("latent_moe_use_norm", false) && m.moe->latent > 0;
  c.integer(m.residual_block, {"attn_res_block_size"}, 0);
  m.attention_gate = c.boolean("mla_use_output_gate", false);
  c.seen({"activation_situ_beta", "activation_situ_linear_beta"});
  c.seen({"mla_use_nope", "moe_renormalize", "moe_router_activation_func", "num_expert_group",
          "use_grouped_topk", "head_dim", "topk_method"});
  const Value* config = c.find("linear_attn_config");
  if (config == nullptr) {
    return c.refuse("linear_attn_config", "a model without linear attention's sizes");
  }
  Config inner(c.reader(), *config);
  job::LinearAttention linear;
  inner.integer(linear.key_heads, {"num_heads"});
  inner.integer(linear.key_dim, {"head_dim"});
  inner.integer(linear.conv, {"short_conv_kernel_size"}, 4);
  linear.value_heads = linear.key_heads;
  linear.value_dim = linear.key_dim;
  linear.elementwise_decay = true;
  linear.whole_gate = inner.boolean("use_full_rank_gate", false);
  m.linear = linear;
  std::string mixers(static_cast<std::size_t>(std::max(m.layers, 0)), 'l');
  if (const Value* full = inner.find("full_attn_layers")) {
    for (const Value& item : full->items) {  // counted from 1
      if (const auto layer = read_integer(c.reader(), item, 1, m.layers)) {
        mixers[static_cast<std::size_t>(*layer - 1)] = 'a';
      }
    }
  }
  m.mixers = repeated(mixers);
}

// Mamba-2 layers alone.
void mamba2(Config& c, Model& m) {
  m.norm = job::Norm::rms;
  m.positions = job::Positions::none;
  c.integer(m.layers, {"num_hidden_layers", "n_layer"});
  c.integer(m.hidden, {"hidden_size", "d_model"});
  c.integer(m.vocab, {"vocab_size"});
  mamba_shapes(c, m);
  m.heads = m.kv_heads = m.mamba->heads;  // of no attention
  m.head_dim = m.mamba->head_dim;
  m.mixers = "m";
  m.mlps = "-";
  m.tied_embeddings = c.boolean("tie_word_embeddings", false);
  read_activation(c, m, "hidden_act", false);
  c.seen({"rms_norm"});
}

// Mamba-2 in some layers, by the keys of Bamba and Granite 4 (transformers 5.23.0,
// models/bamba/configuration_bamba.py, models/granitemoehybrid/configuration_granitemoehybrid.py).
void mamba_by_short_names(Config& c, Model& m) {
  job::Mamba mamba;
  int expand = 2;
  c.integer(mamba.heads, {"mamba_n_heads"}, 128);
  c.integer(expand, {"mamba_expand"}, 2);
  mamba.head_dim = static_cast<int>(expand * m.hidden / std::max(mamba.heads, 1));
  if (const Value* dim = c.find("mamba_d_head"); dim != nullptr && !is_word(*dim, "auto")) {
    c.integer(mamba.head_dim, {"mamba_d_head"});
  }
  c.integer(mamba.state, {"mamba_d_state"}, 256);
  c.integer(mamba.groups, {"mamba_n_groups"}, 1);
  c.integer(mamba.conv, {"mamba_d_conv"}, 4);
  c.integer(mamba.chunk, {"mamba_chunk_size"}, 256);
  if (c.boolean("mamba_proj_bias", false)) {
    c.refuse("mamba_proj_bias", "biases in a Mamba layer's projections");
  }
  if (!c.boolean("mamba_conv_bias", true)) {
    c.refuse("mamba_conv_bias", "a convolution without bias");
  }
  m.mamba = mamba;
}

void bamba(Config& c, Model& m) {
  llama_shapes(c, m);
  attention_biases(c, m, false);
  m.biases.mlp = c.boolean("mlp_bias", false);
  mamba_by_short_names(c, m);
  std::string mixers(static_cast<std::size_t>(std::max(m.layers, 1)), 'm');
  if (const Value* full = c.find("attn_layer_indices")) {
    Reader::Scope scope(c.reader(), "attn_layer_indices");
    for (const Value& item : full->items) {  // counted from 0
      if (const auto layer = read_integer(c.reader(), item, 0, m.layers - 1)) {
        mixers[static_cast<std::size_t>(*layer)] = 'a';
      }
    }
  }
  m.mixers = repeated(mixers);
  c.seen({"layers_block_type", "layer_types", "attn_rotary_emb", "z_loss_coefficient"});
}

// Granite 4: a dense MLP behind the mixer, the routed experts beside it where there are any.
void granitemoehybrid(Config& c, Model& m) {
  llama_shapes(c, m);
  attention_biases(c, m, false);
  if (c.word("position_embedding_type", "nope") != "rope") {
    m.positions = job::Positions::none;
  }
  mamba_by_short_names(c, m);
  m.mixers =
      layer_letters(
          c, "layer_types",
          {{"linear_attention", 'm'}, {"mamba", 'm'}, {"full_attention", 'a'}, {"attention", 'a'}})
          .value_or("m");
  c.seen({"layers_block_type", "init_method", "normalization_function"});
  std::int64_t shared = 1024;
  c.integer(shared, {"shared_intermediate_size"}, 1024);
  job::Moe moe;
  c.integer(moe.experts, {"num_local_experts"}, 8);
  c.integer(moe.topk, {"num_experts_per_tok"}, 2);
  moe.ffn = m.ffn;
  moe.shared_experts = 1;
  moe.shared_ffn = shared;
  if (moe.experts == 0) {
    m.ffn = shared;
  } else {
    m.moe = moe;
  }
}

constexpr std::array kHybridFamilies = {
    Family{"mamba2", mamba2},
    Family{"bamba", bamba},
    Family{"granitemoehybrid", granitemoehybrid},
    Family{"nemotron_h", nemotron_h},
    Family{"qwen3_next", qwen3_next_moe},
    Family{"qwen3_5_text", qwen3_next},
    Family{"qwen3_5_moe_text", qwen3_next_moe},
    Family{"kimi_linear", kimi_linear},
    Family{"nemotron-nas", nemotron_nas},
};

}  // namespace

std::span<const Family> hybrid_families() { return kHybridFamilies; }

}  // namespace stepcast::config
