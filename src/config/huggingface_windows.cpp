// Families whose layers differ in the keys that a query attends to: windows, chunks, an indexer's
// choice.
#include <array>

#include "huggingface_config.h"

namespace stepcast::config {

using job::Model;

namespace {

// Reads "sliding_attention" or "full_attention" for each layer; `absent` is used if there is no
// list.
void layer_types(Config& c, Model& m, std::string absent) {
  const auto letters = layer_letters(
      c, "layer_types",
      {{"full_attention", 'a'}, {"sliding_attention", 'w'}, {"chunked_attention", 'w'}});
  m.mixers = letters.value_or(std::move(absent));
}

// A norm before and after each block; every second layer, starting with the first, attends within
// the window.
void gemma2(Config& c, Model& m) {
  llama_shapes(c, m);
  m.tied_embeddings = c.boolean("tie_word_embeddings", true);
  m.biases.qkv = m.biases.attention_out = c.boolean("attention_bias", false);
  m.sandwich_norms = true;
  expect_activation(c, "hidden_activation", true);
  c.integer(m.sliding_window, {"sliding_window", "sliding_window_size"}, 4096);
  c.seen({"sliding_window_size"});
  layer_types(c, m, "wa");
}

void gemma3(Config& c, Model& m) {
  gemma2(c, m);
  m.qk_norm = true;
  int pattern = 6;
  c.integer(pattern, {"sliding_window_pattern"}, 6);
  if (c.find("layer_types") == nullptr) {
    m.mixers = std::string(static_cast<std::size_t>(std::max(pattern, 1) - 1), 'w') + "a";
  }
}

// Experts with biases, a bias in the router, sinks; alternating windows.
void gpt_oss(Config& c, Model& m) {
  llama_shapes(c, m);
  const bool bias = c.boolean("attention_bias", true);
  m.biases = {bias, bias, true, false};
  m.sinks = true;
  c.integer(m.sliding_window, {"sliding_window"}, 128);
  layer_types(c, m, "wa");
  job::Moe moe;
  c.integer(moe.experts, {"num_local_experts"});
  c.integer(moe.topk, {"num_experts_per_tok", "experts_per_token"});
  c.seen({"experts_per_token"});
  moe.ffn = m.ffn;
  moe.router_bias = true;
  m.moe = moe;
}

// Three of four layers attend in chunks with rotary positions, and the fourth to all keys without
// them. The norm of queries and keys has no weights; its time is left out.
void llama4(Config& c, Model& m) {
  llama_shapes(c, m);
  m.biases.qkv = m.biases.attention_out = c.boolean("attention_bias", false);
  job::Moe moe;
  c.integer(moe.experts, {"num_local_experts"});
  c.integer(moe.topk, {"num_experts_per_tok"});
  moe.ffn = m.ffn;
  moe.shared_experts = 1;
  c.integer(moe.every, {"interleave_moe_layer_step"}, 1);
  c.integer(m.ffn, {"intermediate_size_mlp"}, m.ffn);
  m.moe = moe;
  c.seen({"use_qk_norm", "moe_layers", "no_rope_layers", "no_rope_layer_interval"});
  c.integer(m.sliding_window, {"attention_chunk_size"}, 0);
  m.chunked_window = m.sliding_window > 0;
  m.mixers = m.chunked_window ? "wwwa" : "";
}

// Window layers have more heads, values are narrower than keys, and the window's softmax has sinks.
void mimo_v2(Config& c, Model& m) {
  llama_shapes(c, m);
  m.biases.qkv = c.boolean("attention_bias", false);
  c.integer(m.v_dim, {"v_head_dim"}, 0);
  c.integer(m.sliding_window, {"sliding_window", "sliding_window_size"}, 0);
  c.seen({"sliding_window_size", "attention_chunk_size", "add_full_attention_sink_bias"});
  m.mixers = layer_letters(c, "hybrid_layer_pattern", {{"0", 'a'}, {"1", 'w'}}).value_or("");
  m.sinks = c.boolean("add_swa_attention_sink_bias", false);
  job::WindowHeads heads;
  c.integer(heads.heads, {"swa_num_attention_heads"}, m.heads);
  c.integer(heads.kv_heads, {"swa_num_key_value_heads"}, m.kv_heads);
  c.integer(heads.head_dim, {"swa_head_dim"}, m.head_dim);
  c.integer(heads.v_dim, {"swa_v_head_dim"}, m.v_dim);
  m.window_heads = heads;
  job::Moe moe;
  c.integer(moe.experts, {"n_routed_experts"});
  c.integer(moe.topk, {"num_experts_per_tok"});
  c.integer(moe.ffn, {"moe_intermediate_size"});
  c.integer(moe.shared_experts, {"n_shared_experts"}, 0);
  moe.router_bias = c.word("topk_method", "") == "noaux_tc";
  m.mlps = layer_letters(c, "moe_layer_freq", {{"0", 'd'}, {"1", 'e'}}).value_or("");
  m.moe = moe;
}

void minimax_m2(Config& c, Model& m) {
  llama_shapes(c, m);
  m.qk_norm = c.boolean("use_qk_norm", true);
  m.qk_norm_whole = c.word("qk_norm_type", "per_layer") == "per_layer";
  job::Moe moe;
  c.integer(moe.experts, {"num_local_experts"});
  c.integer(moe.topk, {"num_experts_per_tok"});
  moe.ffn = m.ffn;
  moe.router_bias = c.boolean("use_routing_bias", false);
  m.moe = moe;
  if (c.boolean("use_mtp", false)) {
    prediction_layers(c, m, {"num_mtp_modules"});
    int each = 1;
    c.integer(each, {"mtp_transformer_layers"}, 1);
    if (each != 1) {
      c.refuse("mtp_transformer_layers", "prediction modules of several layers");
    }
  }
  m.mixers = layer_letters(c, "attn_type_list", {{"1", 'a'}}).value_or("");
  c.seen({"num_mtp_modules", "mtp_transformer_layers", "shared_intermediate_size"});
}

void step3(Config& c, Model& m) {
  llama_shapes(c, m);
  c.integer(m.sliding_window, {"sliding_window"}, 0);
  layer_types(c, m, "");
  job::Moe moe;
  c.integer(moe.experts, {"num_experts"});
  c.integer(moe.topk, {"num_experts_per_tok"});
  c.integer(moe.ffn, {"moe_intermediate_size"});
  c.integer(moe.shared_experts, {"n_shared_experts"}, 0);
  c.integer(moe.shared_ffn, {"share_expert_dim"}, 0);
  c.integer(moe.dense_layers, {"first_k_dense_replace"}, 0);
  moe.router_bias = c.boolean("use_moe_router_bias", false);
  m.moe = moe;
  prediction_layers(c, m, {"num_nextn_predict_layers"});
}

// Latent attention to the keys that an indexer selects.
void deepseek_sparse(Config& c, Model& m) {
  deepseek(c, m);
  job::Indexer indexer;
  c.integer(indexer.heads, {"index_n_heads"});
  c.integer(indexer.dim, {"index_head_dim"});
  c.integer(indexer.topk, {"index_topk"});
  indexer.layers =
      layer_letters(c, "indexer_types", {{"full", 'i'}, {"shared", 's'}}).value_or(std::string());
  const auto mlps = layer_letters(c, "mlp_layer_types", {{"dense", 'd'}, {"sparse", 'e'}});
  if (mlps && m.moe &&
      mlps->find_last_of('d') + 1 != static_cast<std::size_t>(m.moe->dense_layers)) {
    c.refuse("mlp_layer_types", "dense layers behind layers of experts");
  }
  c.seen({"index_skip_topk_offset", "index_topk_freq", "index_topk_pattern"});  // make that list
  m.indexer = indexer;
  c.seen({"qk_head_dim", "head_dim"});  // follow from the latent attention's sizes
}

constexpr std::array kWindowFamilies = {
    Family{"gemma2", gemma2},
    Family{"gemma3_text", gemma3},
    Family{"gpt_oss", gpt_oss},
    Family{"llama4_text", llama4},
    Family{"llama4", llama4},
    Family{"mimo_v2_flash", mimo_v2},
    Family{"minimax_m2", minimax_m2},
    Family{"step3p7", step3},
    Family{"deepseek_v32", deepseek_sparse},
    Family{"glm_moe_dsa", deepseek_sparse},
};

}  // namespace

std::span<const Family> window_families() { return kWindowFamilies; }

}  // namespace stepcast::config
