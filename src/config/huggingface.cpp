// Sources of the shapes: the modelling code of each model_type in huggingface/transformers (which
// projections carry a bias, which norm stands where), and the published config.json files in
// configs/models.
#include "huggingface.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "tables.h"

namespace stepcast::config {

using job::Model;

namespace {

// Keys that change neither shapes nor FLOPs of training: tokens, initialisation, numerics,
// generation, bookkeeping, how the published weights are stored, and the rotary table's scaling.
constexpr std::array kHarmless = {"_attn_implementation",
                                  "_name_or_path",
                                  "architectures",
                                  "attn_implementation",
                                  "auto_map",
                                  "aux_loss_alpha",
                                  "bos_token_id",
                                  "classifier_dropout",
                                  "decoder_start_token_id",
                                  "do_sample",
                                  "dtype",
                                  "eos_token_id",
                                  "ep_size",
                                  "finetuning_task",
                                  "gradient_checkpointing",
                                  "id2label",
                                  "initializer_range",
                                  "init_std",
                                  "keys_to_ignore_at_inference",
                                  "label2id",
                                  "layer_norm_eps",
                                  "layer_norm_epsilon",
                                  "length_penalty",
                                  "max_length",
                                  "max_window_layers",
                                  "model_type",
                                  "n_ctx",
                                  "norm_topk_prob",
                                  "original_max_position_embeddings",
                                  "output_attentions",
                                  "output_hidden_states",
                                  "output_past",
                                  "output_router_logits",
                                  "pad_token_id",
                                  "prefix",
                                  "pretraining_tp",
                                  "problem_type",
                                  "quantization_config",
                                  "reorder_and_upcast_attn",
                                  "return_dict",
                                  "rms_norm_eps",
                                  "rope_parameters",
                                  "rope_scaling",
                                  "rope_theta",
                                  "rotary",
                                  "rotary_dim",
                                  "rotary_emb_base",
                                  "rotary_pct",
                                  "router_aux_loss_coef",
                                  "router_jitter_noise",
                                  "routed_scaling_factor",
                                  "scale_attn_by_inverse_layer_idx",
                                  "scale_attn_weights",
                                  "scoring_func",
                                  "seq_aux",
                                  "slow_but_exact",
                                  "summary_activation",
                                  "summary_first_dropout",
                                  "summary_proj_to_labels",
                                  "summary_type",
                                  "summary_use_proj",
                                  "task_specific_params",
                                  "tokenizer_class",
                                  "topk_group",
                                  "n_group",
                                  "torch_dtype",
                                  "transformers_version",
                                  "unk_token_id",
                                  "use_cache",
                                  "use_cache_quantization",
                                  "_remove_final_layer_norm",
                                  "activation_dropout",
                                  "layerdrop"};

// Reads keys and remembers which were read.
class Config {
 public:
  Config(Reader& reader, const Value& doc) : reader_(reader), doc_(doc) {}

  const Value* find(const std::string& key) {
    read_.insert(key);
    const Value* v = doc_.find(key);
    return v == nullptr || is_null(*v) ? nullptr : v;
  }
  const Value& doc() const { return doc_; }
  Reader& reader() { return reader_; }

  // Under the first of these names; required unless there is a default.
  template <class I>
  void integer(I& out, std::initializer_list<const char*> names,
               std::optional<std::int64_t> absent = std::nullopt) {
    const char* primary = *names.begin();
    for (const char* name : names) {
      if (const Value* v = find(name)) {
        Reader::Scope scope(reader_, name);
        if (const auto x = read_integer(reader_, *v, absent ? 0 : 1, kWide)) {
          out = static_cast<I>(*x);
        }
        return;
      }
    }
    if (absent) {
      out = static_cast<I>(*absent);
      return;
    }
    reader_.fault(doc_, fmt::format("the config.json has no '{}'; expected an integer", primary));
  }

  bool boolean(const std::string& key, bool absent) {
    const Value* v = find(key);
    if (v == nullptr) {
      return absent;
    }
    return read_boolean(reader_, *v).value_or(absent);
  }

  double number(const std::string& key, double absent) {
    const Value* v = find(key);
    if (v == nullptr) {
      return absent;
    }
    return read_number(reader_, *v, 0, 0.999).value_or(absent);
  }

  std::string word(const std::string& key, std::string absent) {
    const Value* v = find(key);
    return v == nullptr ? absent : v->scalar;
  }

  // Something that is not modelled, at the key that switches it on.
  void refuse(const std::string& key, std::string_view what) {
    const Value* v = find(key);
    reader_.fault(v != nullptr ? v->origin : doc_.origin,
                  fmt::format("'{}' ({}) is not modelled", key, what));
  }

  void report_unknown() {
    for (const auto& entry : doc_.entries) {
      const bool harmless =
          std::find(kHarmless.begin(), kHarmless.end(), entry.key) != kHarmless.end();
      if (!harmless && read_.count(entry.key) == 0) {
        reader_.fault(
            entry.origin,
            fmt::format("'{}' of this config.json is not known, and could change the model; "
                        "expected a documented key",
                        shown(entry.key)));
      }
    }
  }

  void seen(std::initializer_list<const char*> names) { read_.insert(names.begin(), names.end()); }

 private:
  Reader& reader_;
  const Value& doc_;
  std::set<std::string> read_;
};

// Activations differ in time by nothing that is measured here, but a gated MLP has three matrices.
void expect_activation(Config& c, const char* key, bool gated) {
  const Value* v = c.find(key);
  if (v == nullptr) {
    return;
  }
  static const std::set<std::string> plain = {"gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh",
                                              "relu", "silu",     "swish"};
  if (plain.count(v->scalar) == 0 || (gated && v->scalar == "relu")) {
    c.reader().fault(
        *v, fmt::format("'{}': the activation '{}' is not modelled", key, shown(v->scalar)));
  }
}

void llama_shapes(Config& c, Model& m) {
  m.norm = job::Norm::rms;
  m.positions = job::Positions::rotary;
  m.gated_mlp = true;
  c.integer(m.layers, {"num_hidden_layers"});
  c.integer(m.hidden, {"hidden_size"});
  c.integer(m.heads, {"num_attention_heads"});
  c.integer(m.kv_heads, {"num_key_value_heads"}, m.heads);
  c.integer(m.head_dim, {"head_dim"}, m.heads > 0 ? m.hidden / m.heads : 0);
  c.integer(m.ffn, {"intermediate_size"});
  c.integer(m.vocab, {"vocab_size"});
  m.tied_embeddings = c.boolean("tie_word_embeddings", false);
  c.seen({"max_position_embeddings"});
  expect_activation(c, "hidden_act", true);
  m.dropout = c.number("attention_dropout", 0);
}

void llama(Config& c, Model& m) {
  llama_shapes(c, m);
  m.biases.qkv = m.biases.attention_out = c.boolean("attention_bias", false);
  m.biases.mlp = c.boolean("mlp_bias", false);
}

void mistral(Config& c, Model& m) { llama_shapes(c, m); }

void qwen2(Config& c, Model& m) {
  llama_shapes(c, m);
  m.biases.qkv = true;
}

// Qwen2's block (XiaomiMiMo, modeling_mimo.py).
void mimo(Config& c, Model& m) {
  llama_shapes(c, m);
  m.biases.qkv = c.boolean("attention_bias", true);
  c.seen({"use_mrope"});  // how positions are numbered
}

void qwen3(Config& c, Model& m) {
  llama_shapes(c, m);
  if (c.doc().find("head_dim") == nullptr) {
    m.head_dim = 128;
  }
  m.biases.qkv = m.biases.attention_out = c.boolean("attention_bias", false);
  m.biases.qkv = c.boolean("qkv_bias", m.biases.qkv);
  m.qk_norm = c.boolean("use_qk_norm", true);
}

void mixtral(Config& c, Model& m) {
  llama_shapes(c, m);
  job::Moe moe;
  c.integer(moe.experts, {"num_local_experts"}, 8);
  c.integer(moe.topk, {"num_experts_per_tok"}, 2);
  moe.ffn = m.ffn;
  m.moe = moe;
}

// Which layers are sparse, in Qwen's keys.
void qwen_moe(Config& c, Model& m, bool shared) {
  job::Moe moe;
  c.integer(moe.experts, {"num_experts"});
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

void qwen2_moe(Config& c, Model& m) {
  qwen2(c, m);
  qwen_moe(c, m, true);
}

void qwen3_moe(Config& c, Model& m) {
  qwen3(c, m);
  const Value* shared = c.find("shared_expert_intermediate_size");
  qwen_moe(c, m, shared != nullptr && !is_word(*shared, "0"));
}

void deepseek(Config& c, Model& m) {
  llama_shapes(c, m);
  m.biases.qkv = m.biases.attention_out = c.boolean("attention_bias", false);
  job::Mla mla;
  c.integer(mla.q_lora_rank, {"q_lora_rank"}, 0);
  c.integer(mla.kv_lora_rank, {"kv_lora_rank"});
  c.integer(mla.qk_nope_dim, {"qk_nope_head_dim"});
  c.integer(mla.qk_rope_dim, {"qk_rope_head_dim"});
  c.integer(mla.v_dim, {"v_head_dim"});
  m.kv_heads = m.heads;
  m.head_dim = mla.qk_nope_dim + mla.qk_rope_dim;
  m.mla = mla;
  if (c.find("n_routed_experts") != nullptr) {
    job::Moe moe;
    c.integer(moe.experts, {"n_routed_experts"});
    c.integer(moe.topk, {"num_experts_per_tok"});
    c.integer(moe.ffn, {"moe_intermediate_size"});
    c.integer(moe.shared_experts, {"n_shared_experts"}, 0);
    c.integer(moe.dense_layers, {"first_k_dense_replace"}, 0);
    c.integer(moe.every, {"moe_layer_freq"}, 1);
    moe.router_bias = c.word("topk_method", "") == "noaux_tc";
    m.moe = moe;
  }
}

// GPT-2 writes three dropouts; the model has one.
void dropouts(Config& c, Model& m, std::initializer_list<const char*> names, double absent) {
  bool first = true;
  for (const char* name : names) {
    const double p = c.number(name, absent);
    if (!first && p != m.dropout) {
      c.refuse(name, "a dropout unlike the others");
    }
    m.dropout = first ? p : m.dropout;
    first = false;
  }
}

void gpt2_shapes(Config& c, Model& m) {
  m.norm = job::Norm::layer;
  c.integer(m.layers, {"n_layer", "num_hidden_layers"});
  c.integer(m.hidden, {"n_embd", "hidden_size"});
  c.integer(m.heads, {"n_head", "num_attention_heads"});
  c.integer(m.ffn, {"n_inner"}, 4 * m.hidden);
  c.integer(m.vocab, {"vocab_size"});
  c.integer(m.vocab, {"padded_vocab_size"}, m.vocab);
  m.kv_heads = m.heads;
  m.head_dim = m.heads > 0 ? static_cast<int>(m.hidden / m.heads) : 0;
  expect_activation(c, "activation_function", false);
  dropouts(c, m, {"resid_pdrop", "attn_pdrop", "embd_pdrop"}, 0.1);
}

void gpt2(Config& c, Model& m) {
  gpt2_shapes(c, m);
  m.positions = job::Positions::learned;
  c.integer(m.max_positions, {"n_positions"}, 1024);
  m.biases = {true, true, true, false};
  m.tied_embeddings = c.boolean("tie_word_embeddings", true);
  if (c.boolean("add_cross_attention", false)) {
    c.refuse("add_cross_attention", "cross-attention");
  }
}

void gptj(Config& c, Model& m) {
  gpt2_shapes(c, m);
  m.positions = job::Positions::rotary;
  m.parallel_block = true;
  m.biases = {false, false, true, true};
  m.tied_embeddings = c.boolean("tie_word_embeddings", false);
  c.seen({"n_positions"});
}

void opt(Config& c, Model& m) {
  m.norm = job::Norm::layer;
  m.positions = job::Positions::learned;
  c.integer(m.layers, {"num_hidden_layers"});
  c.integer(m.hidden, {"hidden_size"});
  c.integer(m.heads, {"num_attention_heads"});
  c.integer(m.ffn, {"ffn_dim"});
  c.integer(m.vocab, {"vocab_size"});
  c.integer(m.max_positions, {"max_position_embeddings"}, 2048);
  m.max_positions +=
      2;  // OPT's embedding has two rows of offset (modeling_opt, OPTLearnedPositionalEmbedding).
  m.kv_heads = m.heads;
  m.head_dim = m.heads > 0 ? static_cast<int>(m.hidden / m.heads) : 0;
  const bool bias = c.boolean("enable_bias", true);
  m.biases = {bias, bias, bias, false};
  m.tied_embeddings = c.boolean("tie_word_embeddings", true);
  m.dropout = c.number("dropout", 0.1);
  c.seen({"attention_dropout"});
  expect_activation(c, "activation_function", false);
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
  c.seen({"num_kv_heads", "n_head_kv", "max_position_embeddings"});
  const bool bias = c.boolean("bias", false);
  m.biases = {bias, bias, bias, false};
  m.tied_embeddings = c.boolean("tie_word_embeddings", true);
  m.parallel_block = c.boolean("parallel_attn", true);
  expect_activation(c, "activation", false);
  dropouts(c, m, {"hidden_dropout", "attention_dropout"}, 0);
  if (c.boolean("new_decoder_architecture", false)) {
    c.refuse("new_decoder_architecture", "a parallel block with two norms");
  }
  if (c.boolean("alibi", false)) {
    c.refuse("alibi", "ALiBi positions");
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
  expect_activation(c, "hidden_act", false);
  dropouts(c, m, {"hidden_dropout", "attention_dropout"}, 0);
  if (c.boolean("use_parallel_residual", true)) {
    c.refuse("use_parallel_residual", "a parallel block with two norms");
  }
}

struct Family {
  const char* model_type;
  void (*read)(Config&, Model&);
};

// To add a family: one function above, one row here, a test beside its published config.json.
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
    Family{"gpt_neox", gpt_neox},
    Family{"opt", opt},
    Family{"falcon", falcon},
};

// model_types whose very kind is not modelled, with its name.
struct Refused {
  const char* model_type;
  const char* what;
};
constexpr std::array kRefused = {
    Refused{"bert", "an encoder (BERT)"},
    Refused{"roberta", "an encoder (RoBERTa)"},
    Refused{"t5", "an encoder-decoder model (T5)"},
    Refused{"switch_transformers", "an encoder-decoder model (Switch Transformers)"},
    Refused{"mamba", "a Mamba model"},
    Refused{"mamba2", "a Mamba model"},
    Refused{"nemotron_h", "a hybrid of Mamba and attention layers"},
    Refused{"bloom", "ALiBi positions and the embedding's norm (BLOOM)"},
    Refused{"mpt", "ALiBi positions (MPT)"},
    Refused{"gpt_neo", "local attention (GPT-Neo)"},
    Refused{"chatglm", "ChatGLM's block"},
    Refused{"gemma2", "Gemma's extra norms and local attention"},
    Refused{"gpt_oss", "attention sinks (gpt-oss)"},
    Refused{"llama4", "chunked attention (Llama 4)"},
};

// Keys that switch on something that no family models. Checked for every model_type.
struct Feature {
  const char* key;
  const char* what;
};
constexpr std::array kFeatures = {
    Feature{"vision_config", "a vision tower"},
    Feature{"audio_config", "an audio tower"},
    Feature{"index_topk", "sparse attention with an indexer"},
    Feature{"attention_chunk_size", "chunked attention"},
    Feature{"block_configs", "layers of unlike shapes"},
    Feature{"hybrid_override_pattern", "Mamba layers"},
    Feature{"mamba_num_heads", "Mamba layers"},
    Feature{"ssm_state_size", "Mamba layers"},
    Feature{"linear_num_key_heads", "linear attention"},
    Feature{"linear_attn_config", "linear attention"},
    Feature{"cross_attention_layers", "cross-attention"},
    Feature{"encoder_layers", "an encoder"},
    Feature{"is_encoder_decoder", "an encoder"},
    Feature{"layer_types", "layers of unlike attention"},
};

bool off(const Value& v) {
  return is_null(v) || is_word(v, "false") || is_word(v, "0") ||
         (v.kind == Value::Kind::sequence && v.items.empty());
}

// "full_attention" in every layer is the ordinary model.
bool all_full_attention(const Value& v) {
  return v.kind == Value::Kind::sequence &&
         std::all_of(v.items.begin(), v.items.end(),
                     [](const Value& one) { return is_word(one, "full_attention"); });
}

// The two that an includer may switch off: {use: …, sliding_window: null, mtp_layers: 0}.
void optional_features(Config& c) {
  const Value* window = c.find("sliding_window");
  const bool used = c.boolean("use_sliding_window", true);
  if (window != nullptr && used && !off(*window)) {
    c.reader().features.push_back(
        {"sliding_window",
         {window->origin,
          fmt::format("'sliding_window': attention within a window of {} is not modelled; expected "
                      "null, or "
                      "{{use: ..., sliding_window: null}} to forecast full attention",
                      shown(window->scalar))}});
  }
  for (const char* key : {"num_nextn_predict_layers", "num_mtp_modules"}) {
    const Value* mtp = c.find(key);
    if (mtp != nullptr && !off(*mtp)) {
      c.reader().features.push_back(
          {"mtp_layers",
           {mtp->origin, fmt::format("'{}': multi-token prediction is not modelled; expected 0, or "
                                     "{{use: ..., mtp_layers: 0}} to forecast the main model alone",
                                     key)}});
    }
  }
}

}  // namespace

bool is_huggingface(const Value& doc) {
  return doc.kind == Value::Kind::map &&
         (doc.find("model_type") != nullptr || doc.find("architectures") != nullptr);
}

void read_huggingface(Reader& reader, const Value& doc, Model& out) {
  Config c(reader, doc);
  const Value* type = c.find("model_type");
  if (type == nullptr) {
    reader.fault(doc, "the config.json has no 'model_type'; expected one such as llama");
    return;
  }
  bool refused = false;
  for (const Refused& r : kRefused) {
    if (type->scalar == r.model_type) {
      reader.fault(*type,
                   fmt::format("model_type '{}' ({}) is not modelled", type->scalar, r.what));
      refused = true;
    }
  }
  for (const Feature& f : kFeatures) {
    const Value* v = c.find(f.key);
    if (v == nullptr || off(*v) || all_full_attention(*v)) {
      continue;
    }
    reader.fault(*v, fmt::format("'{}' ({}) is not modelled", f.key, f.what));
    refused = true;
  }
  optional_features(c);
  std::vector<std::string> known;
  for (const Family& family : kFamilies) {
    known.emplace_back(family.model_type);
    if (type->scalar == family.model_type && !refused) {
      family.read(c, out);
      for (const auto& field : model_table()) {
        reader.record(field.spec.key, doc.origin);
      }
      c.report_unknown();
      return;
    }
  }
  if (!refused) {
    std::string all;
    for (const auto& k : known) {
      all += (all.empty() ? "" : " | ") + k;
    }
    reader.fault(*type, fmt::format("model_type '{}' is not modelled; expected {}{}",
                                    shown(type->scalar), all, suggestion(type->scalar, known)));
  }
}

}  // namespace stepcast::config
