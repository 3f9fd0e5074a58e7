// Dense families whose block is Llama's or GPT's but for biases, norms, an MLP without a gate, or
// attention beside the MLP. Keys that a file may leave out, and which matrices have a bias, are
// those of transformers 5.23.0: models/TYPE/configuration_TYPE.py and modeling_TYPE.py.
#include <array>

#include "huggingface_config.h"

namespace stepcast::config {

using job::Model;

namespace {

void attention_and_mlp_biases(Config& c, Model& m, bool absent) {
  attention_biases(c, m, absent);
  m.biases.mlp = c.boolean("mlp_bias", absent);
}

void gemma(Config& c, Model& m) {
  llama_shapes(c, m);
  m.tied_embeddings = c.boolean("tie_word_embeddings", true);
  attention_biases(c, m, false);
  read_activation(c, m, "hidden_activation", true);
  if (c.boolean("use_bidirectional_attention", false)) {
    c.refuse("use_bidirectional_attention", "attention to later tokens");
  }
}

// Gemma 2's layers without the norms behind each block.
void vaultgemma(Config& c, Model& m) {
  gemma(c, m);
  softcaps(c, m, true);
  windows(c, m, 4096, "wa");
}

void phi(Config& c, Model& m) {
  llama_shapes(c, m, false);
  m.norm = job::Norm::layer;
  m.parallel_block = true;
  m.biases = {true, true, true, true};
  dropouts(c, m, {"resid_pdrop", "embd_pdrop", "attention_dropout"}, 0);
  if (c.boolean("qk_layernorm", false)) {
    c.refuse("qk_layernorm", "norms of queries and keys with biases");
  }
}

void phi3(Config& c, Model& m) {
  llama_shapes(c, m);
  dropouts(c, m, {"resid_pdrop", "embd_pdrop", "attention_dropout"}, 0);
  c.integer(m.sliding_window, {"sliding_window"}, 0);
  c.seen({"attention_bias"});  // its modelling code does not read it
}

void starcoder2(Config& c, Model& m) {
  llama_shapes(c, m, false);
  m.norm = job::Norm::layer;
  const bool bias = c.boolean("use_bias", true);
  m.biases = {bias, bias, bias, false};
  m.tied_embeddings = c.boolean("tie_word_embeddings", true);
  dropouts(c, m, {"residual_dropout", "embedding_dropout", "attention_dropout"}, 0);
  c.integer(m.sliding_window, {"sliding_window"}, 0);
  // Its modelling code reads the first alone.
  c.seen({"norm_epsilon", "mlp_type", "norm_type", "activation_function",
          "scale_attention_softmax_in_fp32"});
}

void stablelm(Config& c, Model& m) {
  llama_shapes(c, m);
  m.norm = job::Norm::layer;
  m.biases.qkv = c.boolean("use_qkv_bias", false);
  m.parallel_block = c.boolean("use_parallel_residual", false);
  dropouts(c, m, {"hidden_dropout", "attention_dropout"}, 0);
  if (c.boolean("qk_layernorm", false)) {
    c.refuse("qk_layernorm", "a norm module for each head of queries and keys");
  }
}

// Its norms, composed of several operators in Python, stand as LayerNorm.
void cohere(Config& c, Model& m) {
  llama_shapes(c, m);
  m.norm = job::Norm::layer_without_bias;
  m.parallel_block = true;
  m.tied_embeddings = c.boolean("tie_word_embeddings", true);
  attention_biases(c, m, false);
  m.qk_norm = m.qk_norm_whole = c.boolean("use_qk_norm", false);
}

void cohere2(Config& c, Model& m) {
  cohere(c, m);
  windows(c, m, 4096, "wwwa");
  // Its modelling code reads none of these.
  c.seen({"order_of_interleaved_layers", "position_embedding_type", "rotary_pct",
          "use_embedding_sharing", "use_gated_activation", "use_parallel_block",
          "use_parallel_embedding"});
}

void olmo(Config& c, Model& m) {
  llama_shapes(c, m);
  m.norm = job::Norm::layer_without_weights;
  attention_biases(c, m, false);
  c.seen({"clip_qkv"});  // bounds of queries, keys and values, whose kernels are left out
}

void olmo2(Config& c, Model& m) {
  llama_shapes(c, m);
  attention_biases(c, m, false);
  m.qk_norm = m.qk_norm_whole = m.output_norms = true;
}

void olmo3(Config& c, Model& m) {
  olmo2(c, m);
  windows(c, m, 4096, "wwwa");
}

// The norms of OLMo 2, of each head's query and key.
void exaone4(Config& c, Model& m) {
  llama_shapes(c, m);
  m.qk_norm = m.output_norms = true;
  windows(c, m, 4096, "wwwa");
}

void granite(Config& c, Model& m) {
  llama_shapes(c, m);
  attention_and_mlp_biases(c, m, false);
}

void granite_swa(Config& c, Model& m) {
  granite(c, m);
  m.tied_embeddings = c.boolean("tie_word_embeddings", true);
  m.sinks = true;
  windows(c, m, 128, "awww");
  c.seen({"layer_rope_theta"});
}

void hyperclovax(Config& c, Model& m) {
  granite(c, m);
  m.sandwich_norms = c.boolean("use_post_norm", true);
}

void glm(Config& c, Model& m) {
  llama_shapes(c, m);
  m.biases.qkv = c.boolean("attention_bias", true);
}

void glm4(Config& c, Model& m) {
  glm(c, m);
  m.sandwich_norms = true;
}

void helium(Config& c, Model& m) {
  llama_shapes(c, m);
  m.biases.qkv = c.boolean("attention_bias", false);
  m.biases.mlp = c.boolean("mlp_bias", false);
}

void smollm3(Config& c, Model& m) {
  llama_shapes(c, m);
  m.tied_embeddings = c.boolean("tie_word_embeddings", true);
  attention_and_mlp_biases(c, m, false);
  c.seen({"no_rope_layers", "no_rope_layer_interval", "max_window_layers"});
  const bool windowed = c.boolean("use_sliding_window", false);
  windows(c, m, 0, windowed ? "aaaw" : "");
}

void ernie4_5(Config& c, Model& m) {
  llama_shapes(c, m);
  m.tied_embeddings = c.boolean("tie_word_embeddings", true);
  const bool bias = c.boolean("use_bias", false);
  m.biases = {bias, bias, bias, false};
}

void seed_oss(Config& c, Model& m) {
  llama_shapes(c, m);
  m.biases.qkv = c.boolean("attention_bias", true);
  m.biases.attention_out = c.boolean("attention_out_bias", false);
  m.biases.mlp = c.boolean("mlp_bias", false);
  dropouts(c, m, {"attention_dropout", "residual_dropout"}, 0.1);
}

void hunyuan_dense(Config& c, Model& m) {
  llama_shapes(c, m);
  attention_biases(c, m, false);
  m.qk_norm = true;
  c.seen({"eod_token_id"});
}

// Two matrices and a squared ReLU.
void without_gate(Config& c, Model& m, bool biases) {
  llama_shapes(c, m, false);
  attention_and_mlp_biases(c, m, biases);
}

void arcee(Config& c, Model& m) { without_gate(c, m, false); }

void nemotron(Config& c, Model& m) {
  without_gate(c, m, false);
  m.norm = job::Norm::layer;
  c.seen({"rope_percent"});
}

void jais2(Config& c, Model& m) {
  without_gate(c, m, true);
  m.norm = job::Norm::layer;
}

void cwm(Config& c, Model& m) {
  llama_shapes(c, m);
  m.biases.mlp = c.boolean("mlp_bias", false);
  windows(c, m, 8192, "awww");
}

void ministral(Config& c, Model& m) {
  llama_shapes(c, m);
  windows(c, m, 4096, "w");
}

void ministral3(Config& c, Model& m) {
  llama_shapes(c, m);
  c.integer(m.sliding_window, {"sliding_window"}, 0);
}

// Latent attention over a dense MLP.
void youtu(Config& c, Model& m) {
  llama_shapes(c, m);
  latent_attention(c, m);
  m.tied_embeddings = c.boolean("tie_word_embeddings", true);
  c.seen({"embedding_initializer_range"});
}

void minicpm3(Config& c, Model& m) {
  youtu(c, m);
  m.biases.mlp = c.boolean("mlp_bias", false);
  c.seen({"dim_model_base", "scale_depth", "scale_emb"});
}

void mpt(Config& c, Model& m) {
  m.norm = job::Norm::layer_without_bias;
  m.positions = job::Positions::alibi;
  c.integer(m.layers, {"n_layers", "num_hidden_layers"}, 24);
  c.integer(m.hidden, {"d_model", "hidden_size"}, 2048);
  c.integer(m.heads, {"n_heads", "num_attention_heads"}, 16);
  c.integer(m.vocab, {"vocab_size"}, 50368);
  m.kv_heads = m.heads;
  m.head_dim = m.heads > 0 ? static_cast<int>(m.hidden / m.heads) : 0;
  m.ffn = 4 * m.hidden;  // modeling_mpt.py:142, whatever expansion_ratio says
  m.tied_embeddings = c.boolean("tie_word_embeddings", true);
  dropouts(c, m, {"resid_pdrop", "emb_pdrop"}, 0);
  if (const Value* attention = c.find("attn_config")) {
    Config inner(c.reader(), *attention);
    if (inner.boolean("qk_ln", false)) {
      inner.refuse("qk_ln", "norms of queries and keys over all heads");
    }
    if (!inner.boolean("alibi", true)) {
      inner.refuse("alibi", "positions that are learned, which transformers' MPT does not have");
    }
  }
  if (!c.boolean("no_bias", true)) {
    c.refuse("no_bias", "biases, which transformers' MPT does not have");
  }
  // Its modelling code reads none of these.
  c.seen({"max_seq_len", "expansion_ratio", "learned_pos_emb", "embedding_fraction", "norm_type",
          "init_config", "init_device", "verbose"});
}

// "To add a family": huggingface_families.cpp.
constexpr std::array kDenseFamilies = {
    Family{"gemma", gemma},
    Family{"vaultgemma", vaultgemma},
    Family{"phi", phi},
    Family{"phi3", phi3},
    Family{"starcoder2", starcoder2},
    Family{"stablelm", stablelm},
    Family{"cohere", cohere},
    Family{"cohere2", cohere2},
    Family{"olmo", olmo},
    Family{"olmo2", olmo2},
    Family{"olmo3", olmo3},
    Family{"exaone4", exaone4},
    Family{"granite", granite},
    Family{"granite_swa", granite_swa},
    Family{"hyperclovax", hyperclovax},
    Family{"glm", glm},
    Family{"glm4", glm4},
    Family{"glm4v_text", glm4},
    Family{"helium", helium},
    Family{"smollm3", smollm3},
    Family{"ernie4_5", ernie4_5},
    Family{"seed_oss", seed_oss},
    Family{"hunyuan_v1_dense", hunyuan_dense},
    Family{"arcee", arcee},
    Family{"nemotron", nemotron},
    Family{"jais2", jais2},
    Family{"cwm", cwm},
    Family{"ministral", ministral},
    Family{"ministral3", ministral3},
    Family{"youtu", youtu},
    Family{"minicpm3", minicpm3},
    Family{"mpt", mpt},
};

}  // namespace

std::span<const Family> dense_families() { return kDenseFamilies; }

}  // namespace stepcast::config
