// What a config.json may hold: keys that are harmless, features that are refused by name, and
// families.
#include "huggingface.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "huggingface_config.h"
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

void Config::report_unknown() {
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
  for (const Family& family : families()) {
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
