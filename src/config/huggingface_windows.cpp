// Families whose layers differ in the keys that a query attends to: windows, chunks, an indexer's
// choice.
#include <array>

#include "huggingface_config.h"

namespace stepcast::config {

using job::Model;

void layer_types(Config& c, Model& m, std::string absent) {
  const auto letters = layer_letters(
      c, "layer_types",
      {{"full_attention", 'a'}, {"sliding_attention", 'w'}, {"chunked_attention", 'w'}});
  m.mixers = letters.value_or(std::move(absent));
}

void windows(Config& c, Model& m, std::int64_t window, std::string absent) {
  const bool none =
      c.doc().find("sliding_window") != nullptr && c.find("sliding_window") == nullptr;
  c.integer(m.sliding_window, {"sliding_window"}, none ? 0 : window);
  layer_types(c, m, std::move(absent));
  c.seen({"sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers"});
  if (m.sliding_window == 0 || m.mixers.find('w') == std::string::npos) {
    m.sliding_window = 0;
    m.mixers.clear();
  }
}

namespace {

// A norm before and after each block; every second layer, starting with the first, attends within
// the window.
void gemma2(Config& c, Model& m) {
  llama_shapes(c, m);
  m.tied_embeddings = c.boolean("tie_word_embeddings", true);
  attention_biases(c, m, false);
  m.sandwich_norms = true;
  read_activation(c, m, "hidden_activation", true);
  c.integer(m.sliding_window, {"sliding_window", "sliding_window_size"}, 4096);
  c.seen({"sliding_window_size"});
  layer_types(c, m, "wa");
  softcaps(c, m, true);
}

void gemma3(Config& c, Model& m) {
  gemma2(c, m);
  softcaps(c, m, false);
  m.qk_norm = true;
  int pattern = 6;
  c.integer(pattern, {"sliding_window_pattern", "_sliding_window_pattern"}, 6);
  c.seen({"_sliding_window_pattern"});
  if (c.boolean("use_bidirectional_attention", false)) {
    c.refuse("use_bidirectional_attention", "attention to later tokens");
  }
  if (c.find("layer_types") == nullptr) {
    m.mixers = std::string(static_cast<std::size_t>(std::max(pattern, 1) - 1), 'w') + "a";
  }
}

// An embedding of each layer (transformers 5.24.0, models/gemma4/configuration_gemma4.py:174).
void layer_embedding(Config& c, Model& m) {
  job::LayerEmbedding x;
  c.integer(x.width, {"hidden_size_per_layer_input"}, 256);
  c.integer(x.vocab, {"vocab_size_per_layer_input"}, 262144);
  x.vocab = x.vocab == m.vocab ? 0 : x.vocab;
  if (x.width > 0) {
    m.layer_embedding = x;
  }
}

// The last layers attend to keys of earlier ones, and may have MLPs of twice the width
// (modeling_gemma4.py:1056).
void shared_keys(Config& c, Model& m) {
  c.integer(m.shared_kv_layers, {"num_kv_shared_layers"}, 0);
  if (!c.boolean("use_double_wide_mlp", false) || m.shared_kv_layers == 0) {
    return;
  }
  m.ffns.assign(static_cast<std::size_t>(std::max(m.layers, 0)), m.ffn);
  for (int i = std::max(m.layers - m.shared_kv_layers, 0); i < m.layers; ++i) {
    m.ffns[static_cast<std::size_t>(i)] = 2 * m.ffn;
  }
}

// transformers 5.24.0, models/gemma4: configuration_gemma4.py:152 (the last layer attends to all
// keys) and :184 (heads of those layers), modeling_gemma4.py:1154 (keys as values) and :1342 (a
// dense MLP, here the shared expert, beside the routed ones). The number that scales each layer's
// result (:1414) is left out.
void gemma4(Config& c, Model& m) {
  llama_shapes(c, m);
  m.tied_embeddings = c.boolean("tie_word_embeddings", true);
  attention_biases(c, m, false);
  m.sandwich_norms = m.qk_norm = m.value_norm = true;
  softcaps(c, m, false);
  read_activation(c, m, "hidden_activation", true);
  c.integer(m.sliding_window, {"sliding_window"}, 512);
  c.integer(m.head_dim, {"head_dim"}, 256);
  m.window_heads = job::WindowHeads{m.heads, m.kv_heads, m.head_dim, 0};
  c.integer(m.head_dim, {"global_head_dim"}, 512);
  m.keys_as_values = c.boolean("attention_k_eq_v", false);
  int global_heads = m.kv_heads;
  c.integer(global_heads, {"num_global_key_value_heads"}, m.kv_heads);
  // transformers 5.23 states both for each layer of all keys (configuration_gemma4.py:218).
  if (const Value* layers = c.find("per_layer_config");
      layers != nullptr && !layers->entries.empty()) {
    Config one(c.reader(), layers->entries.front().value);
    one.integer(m.head_dim, {"head_dim"}, m.head_dim);
    one.integer(global_heads, {"num_key_value_heads"}, global_heads);
  }
  m.kv_heads = m.keys_as_values ? global_heads : m.kv_heads;
  layer_types(c, m, "");
  std::string mixers(static_cast<std::size_t>(std::max(m.layers, 1)), 'w');
  for (std::size_t i = 0; i < mixers.size(); ++i) {
    mixers[i] = m.mixers.empty() ? (i % 6 == 5 ? 'a' : 'w') : m.mixers[i % m.mixers.size()];
  }
  mixers.back() = 'a';
  m.mixers = repeated(mixers);

  layer_embedding(c, m);
  shared_keys(c, m);
  if (c.word("use_bidirectional_attention", "") == "all") {
    c.refuse("use_bidirectional_attention", "attention to later tokens");
  }
  const bool experts = c.boolean("enable_moe_block", false);
  c.seen({"num_experts", "top_k_experts", "moe_intermediate_size"});
  if (!experts) {
    return;
  }
  job::Moe moe;
  c.integer(moe.experts, {"num_experts"});
  c.integer(moe.topk, {"top_k_experts"});
  c.integer(moe.ffn, {"moe_intermediate_size"});
  moe.shared_experts = 1;
  moe.shared_ffn = m.ffn;
  moe.branch_norms = true;
  m.moe = moe;
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
  c.seen({"experts_per_token", "swiglu_alpha"});
  moe.ffn = m.ffn;
  moe.router_bias = true;
  m.moe = moe;
}

// Three of four layers attend in chunks with rotary positions, and the fourth to all keys without
// them. The norm of queries and keys has no weights; its time is left out.
void llama4(Config& c, Model& m) {
  llama_shapes(c, m);
  attention_biases(c, m, false);
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
  layer_types(c, m, "wwwa");
  m.mixers = m.chunked_window ? m.mixers : "";
}

// Window layers have more heads, values are narrower than keys, and the window's softmax has sinks.
void mimo_v2(Config& c, Model& m) {
  llama_shapes(c, m);
  m.biases.qkv = c.boolean("attention_bias", false);
  c.integer(m.v_dim, {"v_head_dim"}, 0);
  c.integer(m.sliding_window, {"sliding_window", "sliding_window_size"}, 0);
  c.seen({"sliding_window_size", "attention_chunk_size", "add_full_attention_sink_bias"});
  // transformers 5.23 lists the layers, gives windows sinks and twice the heads of keys and values
  // (modeling_mimo_v2_flash.py:341, :360), and always a bias of the experts' choice.
  const bool own = c.find("hybrid_layer_pattern") != nullptr;
  layer_types(c, m, "");
  m.mixers = layer_letters(c, "hybrid_layer_pattern", {{"0", 'a'}, {"1", 'w'}}).value_or(m.mixers);
  m.sinks = c.boolean("add_swa_attention_sink_bias", !own);
  job::WindowHeads heads;
  c.integer(heads.heads, {"swa_num_attention_heads"}, m.heads);
  c.integer(heads.kv_heads, {"swa_num_key_value_heads"}, own ? m.kv_heads : 2 * m.kv_heads);
  c.integer(heads.head_dim, {"swa_head_dim"}, m.head_dim);
  c.integer(heads.v_dim, {"swa_v_head_dim"}, m.v_dim);
  m.window_heads = heads;
  job::Moe moe;
  c.integer(moe.experts, {"n_routed_experts"});
  c.integer(moe.topk, {"num_experts_per_tok"});
  c.integer(moe.ffn, {"moe_intermediate_size"});
  c.integer(moe.shared_experts, {"n_shared_experts"}, 0);
  moe.router_bias = c.word("topk_method", own ? "" : "noaux_tc") == "noaux_tc";
  m.mlps = layer_letters(c, "moe_layer_freq", {{"0", 'd'}, {"1", 'e'}}).value_or("");
  m.moe = moe;
  sparse_layers(c, m);
}

void minimax_m2(Config& c, Model& m) {
  llama_shapes(c, m);
  m.qk_norm = c.boolean("use_qk_norm", true);
  m.qk_norm_whole = c.word("qk_norm_type", "per_layer") == "per_layer";
  job::Moe moe;
  c.integer(moe.experts, {"num_local_experts"});
  c.integer(moe.topk, {"num_experts_per_tok"});
  moe.ffn = m.ffn;
  moe.router_bias = c.boolean("use_routing_bias", true);
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

// An indexer chooses blocks of keys for each group of heads, behind the first layers.
// transformers 5.24.0, models/minimax_m3_vl/modeling_minimax_m3_vl.py:493. The published weights
// have no prediction layers (Megatron-Bridge 0.6.2, models/minimax_m3/minimax_m3_bridge.py:389).
void sparse_blocks(Config& c, Model& m) {
  const Value* config = c.find("sparse_attention_config");
  if (config == nullptr) {
    return c.refuse("sparse_attention_config", "a model without its indexer's sizes");
  }
  Config inner(c.reader(), *config);
  if (!inner.boolean("use_sparse_attention", true)) {
    return;
  }
  job::Indexer indexer;
  inner.integer(indexer.heads, {"sparse_num_index_heads"});
  inner.integer(indexer.dim, {"sparse_index_dim"});
  inner.integer(indexer.block, {"sparse_block_size"});
  inner.integer(indexer.topk, {"sparse_topk_blocks"});
  indexer.topk *= indexer.block;
  const auto layers =
      layer_letters(inner, "sparse_attention_freq", {{"0", 'a'}, {"1", 'i'}}).value_or("");
  const auto without =
      layer_letters(inner, "sparse_disable_index_value", {{"0", 'a'}, {"1", 'i'}}).value_or(layers);
  if (without != layers) {
    inner.refuse("sparse_disable_index_value", "an indexer with values");
  }
  if (inner.word("sparse_score_type", "max") != "max") {
    inner.refuse("sparse_score_type", "scores of blocks other than their largest");
  }
  // Blocks that are always chosen are among the topk (:547, scatter_ of infinite scores).
  inner.seen({"sparse_local_block", "sparse_init_block"});
  inner.report_unknown();
  indexer.layers = layers;
  m.indexer = indexer;
}

void minimax_m3(Config& c, Model& m) {
  llama_shapes(c, m);
  job::Moe moe;
  c.integer(moe.ffn, {"moe_intermediate_size", "intermediate_size"});
  c.integer(m.ffn, {"dense_intermediate_size"}, m.ffn);
  m.qk_norm = c.boolean("use_qk_norm", true);
  m.qk_norm_whole = c.word("qk_norm_type", "per_head") == "per_layer";
  if (c.boolean("attention_output_gate", false)) {
    c.refuse("attention_output_gate", "a gate on the attention's result");
  }
  c.integer(moe.experts, {"num_local_experts"});
  c.integer(moe.topk, {"num_experts_per_tok"});
  c.integer(moe.shared_experts, {"n_shared_experts"}, 0);
  c.integer(moe.shared_ffn, {"shared_intermediate_size"}, 0);
  moe.router_bias = c.boolean("use_routing_bias", false);
  m.mlps = layer_letters(c, "moe_layer_freq", {{"0", 'd'}, {"1", 'e'}}).value_or("");
  m.moe = moe;
  sparse_blocks(c, m);
  c.seen({"first_k_dense_replace", "num_mtp_modules", "num_nextn_predict_layers", "swiglu_alpha",
          "use_gemma_norm"});
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
  layer_letters(
      c, "layer_types",
      {{"indexed_attention", 'i'}, {"deepseek_sparse_attention", 'i'}, {"full_attention", 'a'}});
}

constexpr std::array kWindowFamilies = {
    Family{"gemma2", gemma2},
    Family{"gemma3_text", gemma3},
    Family{"gemma4_text", gemma4},
    Family{"gpt_oss", gpt_oss},
    Family{"llama4_text", llama4},
    Family{"llama4", llama4},
    Family{"mimo_v2_flash", mimo_v2},
    Family{"minimax_m2", minimax_m2},
    Family{"minimax_m3", minimax_m3},
    Family{"step3p7", step3},
    Family{"deepseek_v32", deepseek_sparse},
    Family{"glm_moe_dsa", deepseek_sparse},
};

}  // namespace

std::span<const Family> window_families() { return kWindowFamilies; }

}  // namespace stepcast::config
