// Which projections have a bias, and where norms are, from the modelling code of each model_type in
// huggingface/transformers and the published config.json files in configs/models.
#include <array>
#include <vector>

#include "huggingface_config.h"

namespace stepcast::config {

using job::Model;

// The time of all activations is taken as equal, but a gated MLP has three matrices.
void read_activation(Config& c, Model& m, const char* key, bool gated) {
  const Value* v = c.find(key);
  if (v == nullptr) {
    return;
  }
  m.activation = is_word(*v, "relu")       ? job::Activation::relu
                 : is_word(*v, "relu2")    ? job::Activation::relu2
                 : is_word(*v, "gelu_new") ? job::Activation::gelu_new
                                           : job::Activation::gelu;
  static const std::set<std::string> plain = {
      "gelu",  "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "relu", "silu",
      "swish", "gelu_10",  "relu2",     "swigluoai",         "situ"};
  const bool never_gated = v->scalar == "relu" || v->scalar == "relu2";
  if (plain.count(v->scalar) == 0 || (gated && never_gated)) {
    c.reader().fault(
        *v, fmt::format("'{}': the activation '{}' is not modelled", key, shown(v->scalar)));
  }
}

void llama_shapes(Config& c, Model& m, bool gated) {
  m.norm = job::Norm::rms;
  m.positions = job::Positions::rotary;
  m.gated_mlp = gated;
  c.integer(m.layers, {"num_hidden_layers"});
  c.integer(m.hidden, {"hidden_size"});
  c.integer(m.heads, {"num_attention_heads"});
  c.integer(m.kv_heads, {"num_key_value_heads"}, m.heads);
  c.integer(m.head_dim, {"head_dim"}, m.heads > 0 ? m.hidden / m.heads : 0);
  // The dense width may be missing if no layer is dense (Qwen3.5).
  c.integer(m.ffn, {"intermediate_size", "moe_intermediate_size"});
  c.integer(m.vocab, {"vocab_size"});
  m.tied_embeddings = c.boolean("tie_word_embeddings", false);
  c.seen({"max_position_embeddings", "mlp_gated_linear_units"});
  read_activation(c, m, "hidden_act", gated);
  m.dropout = c.number("attention_dropout", 0);
}

std::string repeated(std::string letters) {
  for (std::size_t n = 1; n < letters.size(); ++n) {
    bool repeats = true;
    for (std::size_t i = n; i < letters.size() && repeats; ++i) {
      repeats = letters[i] == letters[i % n];
    }
    if (repeats) {
      letters.resize(n);
    }
  }
  return letters;
}

std::optional<std::string> layer_letters(Config& c, const char* key,
                                         std::initializer_list<Letter> words) {
  const Value* list = c.find(key);
  if (list == nullptr) {
    return std::nullopt;
  }
  std::string out;
  for (const Value& item : list->items) {
    char letter = 0;
    for (const Letter& known : words) {
      letter = is_word(item, known.word) ? known.letter : letter;
    }
    if (letter == 0) {
      c.reader().fault(
          item, fmt::format("'{}': layers of '{}' are not modelled", key, shown(item.scalar)));
      return std::nullopt;
    }
    out += letter;
  }
  return repeated(out);
}

void prediction_layers(Config& c, Model& m, std::initializer_list<const char*> names) {
  c.integer(m.mtp_layers, names, 0);
}

void attention_biases(Config& c, Model& m, bool absent) {
  m.biases.qkv = m.biases.attention_out = c.boolean("attention_bias", absent);
}

void softcaps(Config& c, Model& m, bool absent) {
  const auto has = [&](const char* key) {
    const Value* v = c.find(key);
    return v != nullptr || (absent && c.doc().find(key) == nullptr);
  };
  m.attention_softcap = has("attn_logit_softcapping");
  m.logit_softcap = has("final_logit_softcapping");
}

void sparse_layers(Config& c, Model& m) {
  const auto letters = layer_letters(c, "mlp_layer_types", {{"dense", 'd'}, {"sparse", 'e'}});
  if (!letters || !m.moe) {
    return;
  }
  const auto dense = letters->find_first_not_of('d');
  if (dense == std::string::npos || letters->find('d', dense) == std::string::npos) {
    m.moe->dense_layers = static_cast<int>(dense == std::string::npos ? m.layers : dense);
  } else {
    m.mlps = *letters;
  }
}

namespace {

void llama(Config& c, Model& m) {
  llama_shapes(c, m);
  attention_biases(c, m, false);
  m.biases.mlp = c.boolean("mlp_bias", false);
}

void mistral(Config& c, Model& m) {
  llama_shapes(c, m);
  c.integer(m.sliding_window, {"sliding_window"}, 0);
}

// Qwen's layers from max_window_layers on attend within the window if it is enabled.
void qwen_window(Config& c, Model& m) {
  std::int64_t window = 0;
  int full = m.layers;
  c.integer(window, {"sliding_window"}, 0);
  c.integer(full, {"max_window_layers"}, m.layers);
  c.seen({"layer_types"});  // repeats this
  if (!c.boolean("use_sliding_window", false) || window == 0 || full >= m.layers) {
    return;
  }
  m.sliding_window = window;
  if (full > 0) {
    m.mixers = std::string(static_cast<std::size_t>(full), 'a') +
               std::string(static_cast<std::size_t>(m.layers - full), 'w');
  }
}

void qwen2(Config& c, Model& m) {
  llama_shapes(c, m);
  m.biases.qkv = c.boolean("qkv_bias", true);
  qwen_window(c, m);
}

// Qwen2's block (XiaomiMiMo, modeling_mimo.py).
void mimo(Config& c, Model& m) {
  llama_shapes(c, m);
  m.biases.qkv = c.boolean("attention_bias", true);
  prediction_layers(c, m, {"num_nextn_predict_layers"});
  qwen_window(c, m);
  c.seen({"use_mrope"});  // only the numbering of positions
}

}  // namespace

void qwen3(Config& c, Model& m) {
  llama_shapes(c, m);
  if (c.doc().find("head_dim") == nullptr) {
    m.head_dim = 128;
  }
  attention_biases(c, m, false);
  m.biases.qkv = c.boolean("qkv_bias", m.biases.qkv);
  m.qk_norm = c.boolean("use_qk_norm", true);
  qwen_window(c, m);
}

namespace {

void mixtral(Config& c, Model& m) {
  llama_shapes(c, m);
  job::Moe moe;
  c.integer(moe.experts, {"num_local_experts"}, 8);
  c.integer(moe.topk, {"num_experts_per_tok"}, 2);
  moe.ffn = m.ffn;
  m.moe = moe;
  c.integer(m.sliding_window, {"sliding_window"}, 0);
}

}  // namespace

// Which layers are sparse, by Qwen's keys.
void qwen_moe(Config& c, Model& m, bool shared) {
  job::Moe moe;
  c.integer(moe.experts, {"num_experts", "num_local_experts"});
  c.integer(moe.topk, {"num_experts_per_tok"});
  c.integer(moe.ffn, {"moe_intermediate_size"});
  c.integer(moe.every, {"decoder_sparse_step"}, 1);
  if (const Value* v = c.find("mlp_only_layers"); v != nullptr && !v->items.empty()) {
    c.refuse("mlp_only_layers", "a list of dense layers");
  }
  if (shared) {
    c.integer(moe.shared_ffn, {"shared_expert_intermediate_size"});
    moe.shared_experts = 1;
    moe.shared_gate = true;
  }
  m.moe = moe;
}

namespace {

void qwen2_moe(Config& c, Model& m) {
  qwen2(c, m);
  qwen_moe(c, m, true);
}

void qwen3_moe(Config& c, Model& m) {
  qwen3(c, m);
  if (c.doc().find("head_dim") == nullptr && m.heads > 0) {
    m.head_dim = static_cast<int>(m.hidden / m.heads);
  }
  const Value* shared = c.find("shared_expert_intermediate_size");
  qwen_moe(c, m, shared != nullptr && !is_word(*shared, "0"));
}

}  // namespace

void latent_attention(Config& c, Model& m) {
  if (c.boolean("attention_bias", false)) {
    c.refuse("attention_bias", "biases in latent attention");
  }
  c.seen({"qk_head_dim", "head_dim"});  // follow from the sizes below
  job::Mla mla;
  c.integer(mla.q_lora_rank, {"q_lora_rank"}, 0);
  c.integer(mla.kv_lora_rank, {"kv_lora_rank"});
  c.integer(mla.qk_nope_dim, {"qk_nope_head_dim"});
  c.integer(mla.qk_rope_dim, {"qk_rope_head_dim"});
  c.integer(mla.v_dim, {"v_head_dim"});
  m.kv_heads = m.heads;
  m.head_dim = mla.qk_nope_dim + mla.qk_rope_dim;
  m.mla = mla;
}

void deepseek(Config& c, Model& m) {
  llama_shapes(c, m);
  latent_attention(c, m);
  prediction_layers(c, m, {"num_nextn_predict_layers"});
  c.boolean("add_cross_attention", false);
  if (c.boolean("mlp_bias", false)) {
    c.refuse("mlp_bias", "biases of MLPs behind latent attention");
  }
  if (c.find("n_routed_experts") != nullptr) {
    job::Moe moe;
    c.integer(moe.experts, {"n_routed_experts"});
    c.integer(moe.topk, {"num_experts_per_tok"});
    c.integer(moe.ffn, {"moe_intermediate_size"});
    c.integer(moe.shared_experts, {"n_shared_experts"}, 0);
    c.integer(moe.dense_layers, {"first_k_dense_replace"}, 0);
    c.integer(moe.every, {"moe_layer_freq"}, 1);
    // From DeepSeek-V3 on there is no other method, and transformers 5 no longer states it.
    const bool states_it = c.word("model_type", "") == "deepseek_v2";
    moe.router_bias = c.word("topk_method", states_it ? "" : "noaux_tc") == "noaux_tc";
    c.integer(moe.router_groups, {"n_group"}, 1);
    c.integer(moe.router_group_topk, {"topk_group"}, 1);
    m.moe = moe;
  }
}

// GPT-2 has three dropout rates; the model has one.
void dropouts(Config& c, Model& m, std::initializer_list<const char*> names, double absent) {
  bool first = true;
  for (const char* name : names) {
    const double p = c.number(name, absent);
    if (!first && p != m.dropout) {
      c.refuse(name, "dropout probabilities that differ");
    }
    m.dropout = first ? p : m.dropout;
    first = false;
  }
}

namespace {

void gpt2_shapes(Config& c, Model& m) {
  m.norm = job::Norm::layer;
  c.integer(m.layers, {"n_layer", "num_hidden_layers"});
  c.integer(m.hidden, {"n_embd", "hidden_size"});
  c.integer(m.heads, {"n_head", "num_attention_heads"});
  c.integer(m.ffn, {"n_inner", "intermediate_size"}, 4 * m.hidden);
  c.integer(m.vocab, {"vocab_size"});
  c.integer(m.vocab, {"padded_vocab_size"}, m.vocab);
  m.kv_heads = m.heads;
  m.head_dim = m.heads > 0 ? static_cast<int>(m.hidden / m.heads) : 0;
  m.activation = job::Activation::gelu_new;
  read_activation(c, m, "activation_function", false);
  dropouts(c, m, {"resid_pdrop", "attn_pdrop", "embd_pdrop"}, 0.1);
}

void gpt2(Config& c, Model& m) {
  gpt2_shapes(c, m);
  m.positions = job::Positions::learned;
  c.integer(m.max_positions, {"n_positions", "max_position_embeddings"}, 1024);
  m.biases = {true, true, true, false};
  m.tied_embeddings = c.boolean("tie_word_embeddings", true);
  if (c.boolean("add_cross_attention", false)) {
    c.refuse("add_cross_attention", "cross-attention");
  }
}

// GPT-2 with one head of keys and values.
void gpt_bigcode(Config& c, Model& m) {
  gpt2(c, m);
  m.kv_heads = c.boolean("multi_query", true) ? 1 : m.heads;
  c.seen({"num_key_value_heads", "attention_softmax_in_fp32", "scale_attention_softmax_in_fp32",
          "inference_runner", "validate_runner_input", "pre_allocate_kv_cache",
          "max_sequence_length", "max_batch_size"});
}

void gptj(Config& c, Model& m) {
  gpt2_shapes(c, m);
  m.positions = job::Positions::rotary;
  m.parallel_block = true;
  m.biases = {false, false, true, true};
  m.tied_embeddings = c.boolean("tie_word_embeddings", false);
  c.seen({"n_positions", "max_position_embeddings"});
}

void opt(Config& c, Model& m) {
  m.norm = job::Norm::layer;
  m.positions = job::Positions::learned;
  c.integer(m.layers, {"num_hidden_layers"});
  c.integer(m.hidden, {"hidden_size"});
  c.integer(m.heads, {"num_attention_heads"});
  c.integer(m.ffn, {"ffn_dim", "intermediate_size"});
  c.integer(m.vocab, {"vocab_size"});
  c.integer(m.max_positions, {"max_position_embeddings"}, 2048);
  // The embedding of OPT has two extra rows (modeling_opt, OPTLearnedPositionalEmbedding).
  m.max_positions += 2;
  m.kv_heads = m.heads;
  m.head_dim = m.heads > 0 ? static_cast<int>(m.hidden / m.heads) : 0;
  const bool bias = c.boolean("enable_bias", true);
  m.biases = {bias, bias, bias, false};
  m.tied_embeddings = c.boolean("tie_word_embeddings", true);
  m.dropout = c.number("dropout", 0.1);
  c.seen({"attention_dropout"});
  m.activation = job::Activation::relu;
  read_activation(c, m, "activation_function", false);
  std::int64_t projected = 0;
  c.integer(projected, {"word_embed_proj_dim"}, m.hidden);
  if (projected != m.hidden) {
    c.refuse("word_embed_proj_dim", "a projected embedding");
  }
  if (!c.boolean("do_layer_norm_before", true)) {
    c.refuse("do_layer_norm_before", "a norm after the block");
  }
  if (!c.boolean("layer_norm_elementwise_affine", true)) {
    c.refuse("layer_norm_elementwise_affine", "a norm without weights");
  }
}

void falcon(Config& c, Model& m) {
  m.norm = job::Norm::layer;
  m.positions = job::Positions::rotary;
  c.integer(m.layers, {"num_hidden_layers", "n_layer"});
  c.integer(m.hidden, {"hidden_size"});
  c.integer(m.heads, {"num_attention_heads", "n_head"});
  c.integer(m.vocab, {"vocab_size"});
  c.integer(m.ffn, {"ffn_hidden_size"}, 4 * m.hidden);
  m.head_dim = m.heads > 0 ? static_cast<int>(m.hidden / m.heads) : 0;
  const bool multi_query = c.boolean("multi_query", true);
  m.kv_heads = multi_query ? 1 : m.heads;
  const bool grouped = c.boolean("new_decoder_architecture", false);
  if (grouped) {  // grouped heads, and by default a separate norm for the MLP
    c.integer(m.kv_heads, {"num_kv_heads", "n_head_kv"}, m.heads);
    int norms = 2;
    c.integer(norms, {"num_ln_in_parallel_attn"}, 2);
    m.parallel_norms = norms == 2;
  }
  c.seen({"num_kv_heads", "n_head_kv", "max_position_embeddings"});
  const bool bias = c.boolean("bias", false);
  m.biases = {bias, bias, bias, false};
  m.tied_embeddings = c.boolean("tie_word_embeddings", true);
  m.parallel_block = c.boolean("parallel_attn", true);
  read_activation(c, m, "activation", false);
  dropouts(c, m, {"hidden_dropout", "attention_dropout"}, 0);
  m.parallel_block = m.parallel_block || grouped;
  if (c.boolean("alibi", false)) {
    m.positions = job::Positions::alibi;
  }
}

void gpt_neox(Config& c, Model& m) {
  m.norm = job::Norm::layer;
  m.positions = job::Positions::rotary;
  c.integer(m.layers, {"num_hidden_layers"});
  c.integer(m.hidden, {"hidden_size"});
  c.integer(m.heads, {"num_attention_heads"});
  c.integer(m.ffn, {"intermediate_size"});
  c.integer(m.vocab, {"vocab_size"});
  m.kv_heads = m.heads;
  m.head_dim = m.heads > 0 ? static_cast<int>(m.hidden / m.heads) : 0;
  const bool bias = c.boolean("attention_bias", true);
  m.biases = {bias, bias, true, false};
  m.tied_embeddings = c.boolean("tie_word_embeddings", false);
  c.seen({"max_position_embeddings"});
  read_activation(c, m, "hidden_act", false);
  dropouts(c, m, {"hidden_dropout", "attention_dropout"}, 0);
  m.parallel_block = m.parallel_norms = c.boolean("use_parallel_residual", true);
}

// To add a family, add one function above, one row here and a test with its published config.json.
constexpr std::array kFamilies = {
    Family{"llama", llama},
    Family{"mistral", mistral},
    Family{"mixtral", mixtral},
    Family{"qwen2", qwen2},
    Family{"qwen2_moe", qwen2_moe},
    Family{"qwen3", qwen3},
    Family{"qwen3_moe", qwen3_moe},
    Family{"mimo", mimo},
    Family{"deepseek_v2", deepseek},
    Family{"deepseek_v3", deepseek},
    Family{"kimi_k2", deepseek},
    Family{"gpt2", gpt2},
    Family{"gptj", gptj},
    Family{"codegen", gptj},
    Family{"gpt_bigcode", gpt_bigcode},
    Family{"internlm3", llama},
    Family{"gpt_neox", gpt_neox},
    Family{"opt", opt},
    Family{"falcon", falcon},
    Family{"qwen2_vl_text", qwen2},
    Family{"qwen2_5_vl_text", qwen2},
    Family{"qwen3_vl_text", qwen3},
    Family{"qwen3_vl_moe_text", qwen3_moe},
};

}  // namespace

std::span<const Family> families() {
  static const std::vector<Family> all = [] {
    std::vector<Family> out(kFamilies.begin(), kFamilies.end());
    for (const auto& more : {dense_families(), expert_families(), window_families(),
                             hybrid_families(), stream_families(), encoder_families()}) {
      out.insert(out.end(), more.begin(), more.end());
    }
    return out;
  }();
  return all;
}

}  // namespace stepcast::config
