// The keys that a config.json may contain: harmless ones, features that are refused by name, and
// families.
#include "huggingface.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "huggingface_config.h"
#include "stepcast/config/config.h"
#include "tables.h"

namespace stepcast::config {

using job::Model;

namespace {

// Keys that change neither shapes nor FLOPs of training: tokens, initialisation, numerics,
// generation, bookkeeping, how the published weights are stored, and the rotary table's scaling.
constexpr std::array kHarmless = {"_attn_implementation",
                                  "output_gate_type",
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
                                  "is_encoder_decoder",
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
                                  "layerdrop",
                                  "rescale_prenorm_residual",
                                  "residual_in_fp32",
                                  "norm_eps",
                                  "layernorm_epsilon",
                                  "num_logits_to_keep",
                                  "time_step_floor",
                                  "time_step_limit",
                                  "time_step_max",
                                  "time_step_min",
                                  "time_step_rank",
                                  "mamba_ssm_cache_dtype",
                                  "mamba_ssm_dtype",
                                  "use_mamba_kernels",
                                  "partial_rotary_factor",
                                  "bad_words_ids",
                                  "begin_suppress_tokens",
                                  "chunk_size_feed_forward",
                                  "cross_attention_hidden_size",
                                  "diversity_penalty",
                                  "early_stopping",
                                  "encoder_no_repeat_ngram_size",
                                  "exponential_decay_length_penalty",
                                  "forced_bos_token_id",
                                  "forced_eos_token_id",
                                  "is_decoder",
                                  "min_length",
                                  "no_repeat_ngram_size",
                                  "num_beam_groups",
                                  "num_beams",
                                  "num_return_sequences",
                                  "output_scores",
                                  "pruned_heads",
                                  "remove_invalid_values",
                                  "repetition_penalty",
                                  "return_dict_in_generate",
                                  "sep_token_id",
                                  "suppress_tokens",
                                  "temperature",
                                  "tf_legacy_loss",
                                  "tie_encoder_decoder",
                                  "top_k",
                                  "top_p",
                                  "torchscript",
                                  "typical_p",
                                  "use_bfloat16",
                                  "ignore_index",
                                  "image_placeholder",
                                  "media_placeholder_token_id",
                                  "image_token_id",
                                  "video_token_id",
                                  "vision_start_token_id",
                                  "vision_end_token_id",
                                  "video_placeholder",
                                  "use_unified_vision_chunk",
                                  "boi_token_index",
                                  "eoi_token_index",
                                  "image_token_index",
                                  "mm_tokens_per_image",
                                  "initial_context_length",
                                  "audio_token_id",
                                  "boa_token_id",
                                  "boi_token_id",
                                  "eoa_token_id",
                                  "eoa_token_index",
                                  "eoi_token_id",
                                  "vision_soft_tokens_per_image",
                                  "swiglu_limit",
                                  "query_pre_attn_scalar",
                                  "cache_implementation",
                                  "rope_local_base_freq",
                                  "swa_rope_theta",
                                  "attention_value_scale",
                                  "rope_interleave",
                                  "indexer_rope_interleave",
                                  "index_share_for_mtp_iteration",
                                  "moe_router_dtype",
                                  "use_grouped_topk",
                                  "initializer_factor",
                                  "relative_attention_max_distance",
                                  "expert_capacity",
                                  "router_bias",
                                  "router_dtype",
                                  "router_ignore_padding_tokens",
                                  "router_type",
                                  "router_z_loss_coef",
                                  "add_router_probs",
                                  "n_positions",
                                  "position_embedding_type",
                                  "directionality",
                                  "pooler_fc_size",
                                  "pooler_num_attention_heads",
                                  "pooler_num_fc_layers",
                                  "pooler_size_per_head",
                                  "pooler_type",
                                  "bos_token",
                                  "moe_router_scaling_factor",
                                  "attn_temperature_tuning",
                                  "floor_scale",
                                  "attn_scale",
                                  "attention_multiplier",
                                  "embedding_multiplier",
                                  "logit_scale",
                                  "logits_scaling",
                                  "residual_multiplier",
                                  "for_llm_compressor",
                                  "mrope_section",
                                  "masked_softmax_fusion",
                                  "apply_query_key_layer_scaling",
                                  "attention_softmax_in_fp32",
                                  "bias_dropout_fusion",
                                  "fp32_residual_connection",
                                  "original_rope",
                                  "skip_bias_add",
                                  "skip_bias_add_qkv",
                                  "offset_alibi",
                                  "seq_length"};

// A model_type that is not modelled at all, with a name for the message.
struct Refused {
  const char* model_type;
  const char* what;
};
constexpr std::array kRefused = {
    Refused{"mamba", "a first-generation Mamba model: selective scans, not state-space duality"},
};

// Keys that switch on a feature that no family models. They are checked for every model_type.
struct Feature {
  const char* key;
  const char* what;
};
constexpr std::array kFeatures = {
    Feature{"audio_config", "an audio tower"},
    Feature{"cross_attention_layers", "cross-attention in some layers"},
};

bool off(const Value& v) {
  return is_null(v) || is_word(v, "false") || is_word(v, "0") ||
         (v.kind == Value::Kind::sequence && v.items.empty());
}

// llm-analysis (github.com/cli99/llm-analysis) uses its own names for the shapes in config.json
// files.
Value with_common_names(const Value& doc) {
  static const std::map<std::string, std::string> names = {
      {"num_layers", "num_hidden_layers"},
      {"n_head", "num_attention_heads"},
      {"hidden_dim", "hidden_size"},
      {"ffn_embed_dim", "intermediate_size"},
      {"max_seq_len", "max_position_embeddings"},
      {"name", "_name_or_path"},
      {"num_key_value_heads", "num_key_value_heads"}};
  Value out = doc;
  for (auto& entry : out.entries) {
    if (const auto it = names.find(entry.key); it != names.end()) {
      entry.key = it->second;
    }
  }
  return out;
}

// The vision tower of a multimodal model, which an includer may leave out: {use: ..., vision:
// null}.
void vision_tower(Reader& reader, const Value& doc) {
  const Value* tower = doc.find("vision_config");
  if (tower != nullptr && !off(*tower)) {
    reader.features.push_back(
        {"vision",
         {tower->origin,
          "'vision_config': a vision tower is not modelled; expected {use: ..., vision: null} to "
          "forecast the language model alone"}});
  }
}

}  // namespace

void Config::report_unknown() {
  for (const auto& entry : doc_.entries) {
    const bool harmless =
        std::find(kHarmless.begin(), kHarmless.end(), entry.key) != kHarmless.end();
    if (!harmless && !is_null(entry.value) && read_.count(entry.key) == 0) {
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

namespace {

// The format in which transformers loads a checkpoint by dtype "auto": the config's, else that of
// the weights (5.0.0 modeling_utils.py:800). A config without the key that is not quantised is
// older than the key, of a time when models were trained and saved in fp32 (BERT, GPT-2).
DType checkpoint_format(const Value& inner, const Value& outer) {
  for (const Value* doc : {&inner, &outer}) {
    for (const char* key : {"dtype", "torch_dtype"}) {
      if (const Value* v = doc->find(key); v != nullptr && v->kind == Value::Kind::scalar) {
        return v->scalar == "float32"   ? DType::fp32
               : v->scalar == "float16" ? DType::fp16
                                        : DType::bf16;
      }
    }
  }
  return outer.find("quantization_config") != nullptr ||
                 inner.find("quantization_config") != nullptr
             ? DType::bf16
             : DType::fp32;
}

// Reads the language model's part of a document. The keys outside of that part are then only
// bookkeeping.
void read_language_model(Reader& reader, const Value& doc, const Value& outer, Model& out) {
  Config c(reader, doc);
  c.seen({"vision_config"});
  const Value* type = c.find("model_type");
  if (type == nullptr) {
    type = outer.find("model_type");
  }
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
    if (v == nullptr || off(*v)) {
      continue;
    }
    reader.fault(*v, fmt::format("'{}' ({}) is not modelled", f.key, f.what));
    refused = true;
  }
  if (refused) {
    return;
  }
  std::vector<std::string> known;
  for (const Family& family : families()) {
    known.emplace_back(family.model_type);
    if (type->scalar == family.model_type) {
      family.read(c, out);
      out.modules = modules_of(type->scalar);
      out.checkpoint = checkpoint_format(doc, outer);
      for (const Row& row : model_table().rows) {
        if (row.spec.key != "vision") {
          reader.record(row.spec.key, doc.origin);
        }
      }
      c.report_unknown();
      return;
    }
  }
  reader.fault(
      *type,
      fmt::format(
          "model_type '{}' is not modelled; expected one of those that simulate --list names{}",
          shown(type->scalar), suggestion(type->scalar, known)));
}

}  // namespace

void read_huggingface(Reader& reader, const Value& doc, Model& out) {
  vision_tower(reader, doc);
  const Value* text = doc.find("text_config");
  const Value* audio = doc.find("audio_config");
  if (text != nullptr && audio != nullptr && !off(*audio)) {
    reader.fault(*audio, "'audio_config' (an audio tower) is not modelled");
  }
  if (text == nullptr || text->kind != Value::Kind::map) {
    const bool renamed = doc.find("ffn_embed_dim") != nullptr;
    const Value* type = doc.find("model_type");
    if (renamed && type != nullptr && is_word(*type, "llama") &&
        doc.find("mlp_gated_linear_units") == nullptr) {
      reader.fault(*doc.find("ffn_embed_dim"),
                   "'ffn_embed_dim' (llm-analysis) is not the width of a gated MLP; expected the "
                   "model's own config.json with intermediate_size");
      return;
    }
    read_language_model(reader, renamed ? with_common_names(doc) : doc, doc, out);
    return;
  }
  // Outer keys that concern the language model: whether its tables are tied, and tokens.
  Value inner = *text;
  const Value* tied = doc.find("tie_word_embeddings");
  if (tied != nullptr && inner.find("tie_word_embeddings") == nullptr) {
    inner.entries.push_back({"tie_word_embeddings", tied->origin, *tied});
  }
  read_language_model(reader, inner, doc, out);
  if (!reader.clean()) {
    return;
  }
  Config beside(reader, doc);
  beside.seen({"text_config", "vision_config", "audio_config", "tie_word_embeddings"});
  beside.report_unknown();
}

std::vector<std::string> model_types() {
  std::vector<std::string> out;
  for (const Family& family : families()) {
    out.emplace_back(family.model_type);
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace stepcast::config
