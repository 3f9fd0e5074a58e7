// Encoders, encoder-decoder models, and decoders of the GPT-3 generation with special positions.
#include <array>

#include "huggingface_config.h"

namespace stepcast::config {

using job::Model;

namespace {

// Bidirectional attention, norms after the blocks, and the embedding table also predicts masked
// words.
void bert(Config& c, Model& m) {
  m.norm = job::Norm::layer;
  m.positions = job::Positions::learned;
  c.integer(m.layers, {"num_hidden_layers"});
  c.integer(m.hidden, {"hidden_size"});
  c.integer(m.heads, {"num_attention_heads"});
  c.integer(m.ffn, {"intermediate_size"});
  c.integer(m.vocab, {"vocab_size"});
  c.integer(m.max_positions, {"max_position_embeddings"}, 512);
  c.integer(m.token_types, {"type_vocab_size"}, 2);
  m.kv_heads = m.heads;
  m.head_dim = m.heads > 0 ? static_cast<int>(m.hidden / m.heads) : 0;
  m.biases = {true, true, true, true};
  m.tied_embeddings = c.boolean("tie_word_embeddings", true);
  m.encoder_layers = m.layers;
  m.post_norm = m.embedding_norm = m.head_transform = true;
  read_activation(c, m, "hidden_act", false);
  dropouts(c, m, {"hidden_dropout_prob", "attention_probs_dropout_prob"}, 0.1);
  if (c.boolean("is_decoder", false) || c.boolean("add_cross_attention", false)) {
    c.refuse("is_decoder", "an encoder's layers as a decoder");
  }
}

// A gated product if feed_forward_proj says so.
void t5_block(Config& c, Model& m) {
  const std::string block = c.word("feed_forward_proj", "relu");
  m.gated_mlp = block.rfind("gated-", 0) == 0;
  m.activation = block == "relu" ? job::Activation::relu : job::Activation::gelu;
  c.seen({"dense_act_fn", "is_gated_act"});
}

void t5(Config& c, Model& m) {
  m.norm = job::Norm::rms;
  m.positions = job::Positions::relative;
  c.integer(m.encoder_layers, {"num_layers"});
  int decoder = 0;
  c.integer(decoder, {"num_decoder_layers"}, m.encoder_layers);
  m.layers = m.encoder_layers + decoder;
  c.integer(m.hidden, {"d_model"});
  c.integer(m.heads, {"num_heads"});
  c.integer(m.head_dim, {"d_kv"});
  c.integer(m.ffn, {"d_ff"});
  c.integer(m.vocab, {"vocab_size"});
  c.integer(m.relative_buckets, {"relative_attention_num_buckets"}, 32);
  m.kv_heads = m.heads;
  m.tied_embeddings = c.boolean("tie_word_embeddings", true);
  m.dropout = c.number("dropout_rate", 0.1);
  c.boolean("is_encoder_decoder", true);
  t5_block(c, m);
}

// T5 with experts in every n-th layer.
void switch_transformers(Config& c, Model& m) {
  t5(c, m);
  job::Moe moe;
  c.integer(moe.experts, {"num_experts"});
  moe.topk = 1;
  moe.ffn = m.ffn;
  int encoder_step = 1;
  int decoder_step = 1;
  c.integer(encoder_step, {"encoder_sparse_step"}, 2);
  c.integer(decoder_step, {"decoder_sparse_step"}, 2);
  c.seen({"num_sparse_encoder_layers", "num_sparse_decoder_layers"});
  if (encoder_step != decoder_step) {
    c.refuse("decoder_sparse_step", "experts in different layers of encoder and decoder");
  }
  moe.every = encoder_step;
  m.moe = moe;
}

// Global and local attention alternate; projections of queries, keys and values have no biases.
void gpt_neo(Config& c, Model& m) {
  m.norm = job::Norm::layer;
  m.positions = job::Positions::learned;
  c.integer(m.layers, {"num_layers", "num_hidden_layers"});
  c.integer(m.hidden, {"hidden_size"});
  c.integer(m.heads, {"num_heads", "num_attention_heads"});
  std::int64_t ffn = 0;
  c.integer(ffn, {"intermediate_size"}, 0);
  m.ffn = ffn > 0 ? ffn : 4 * m.hidden;
  c.integer(m.vocab, {"vocab_size"});
  c.integer(m.max_positions, {"max_position_embeddings"}, 2048);
  m.kv_heads = m.heads;
  m.head_dim = m.heads > 0 ? static_cast<int>(m.hidden / m.heads) : 0;
  m.biases = {false, true, true, false};
  m.tied_embeddings = c.boolean("tie_word_embeddings", true);
  read_activation(c, m, "activation_function", false);
  dropouts(c, m, {"resid_dropout", "attention_dropout", "embed_dropout"}, 0);
  c.integer(m.sliding_window, {"window_size"}, 256);
  m.mixers = "aw";
  c.seen({"attention_types"});
  if (const auto listed = layer_letters(c, "attention_layers", {{"global", 'a'}, {"local", 'w'}})) {
    m.mixers = *listed;
  }
}

void bloom(Config& c, Model& m) {
  m.norm = job::Norm::layer;
  m.positions = job::Positions::alibi;
  c.integer(m.layers, {"n_layer", "num_hidden_layers"});
  c.integer(m.hidden, {"hidden_size", "n_embed"});
  c.integer(m.heads, {"n_head", "num_attention_heads"});
  c.integer(m.vocab, {"vocab_size"});
  c.integer(m.ffn, {"intermediate_size"}, 4 * m.hidden);
  m.kv_heads = m.heads;
  m.head_dim = m.heads > 0 ? static_cast<int>(m.hidden / m.heads) : 0;
  m.biases = {true, true, true, false};
  m.embedding_norm = true;
  m.tied_embeddings = c.boolean("tie_word_embeddings", true);
  dropouts(c, m, {"hidden_dropout", "attention_dropout"}, 0);
  c.seen({"max_position_embeddings", "n_inner"});
  if (c.boolean("apply_residual_connection_post_layernorm", false)) {
    c.refuse("apply_residual_connection_post_layernorm", "residual connections after the norms");
  }
}

void chatglm(Config& c, Model& m) {
  m.norm = c.boolean("rmsnorm", true) ? job::Norm::rms : job::Norm::layer;
  m.positions = job::Positions::rotary;
  m.gated_mlp = true;
  c.integer(m.layers, {"num_layers"});
  c.integer(m.hidden, {"hidden_size"});
  c.integer(m.heads, {"num_attention_heads"});
  c.integer(m.head_dim, {"kv_channels"}, 128);
  c.integer(m.ffn, {"ffn_hidden_size"});
  c.integer(m.vocab, {"padded_vocab_size"});
  m.kv_heads = m.heads;
  if (c.boolean("multi_query_attention", false)) {
    c.integer(m.kv_heads, {"multi_query_group_num"}, 1);
  }
  c.seen({"multi_query_group_num"});
  const bool bias = c.boolean("add_bias_linear", false);
  m.biases = {c.boolean("add_qkv_bias", false) || bias, bias, bias, false};
  m.tied_embeddings = c.boolean("tie_word_embeddings", false);
  dropouts(c, m, {"hidden_dropout", "attention_dropout"}, 0);
  if (c.boolean("apply_residual_connection_post_layernorm", false)) {
    c.refuse("apply_residual_connection_post_layernorm", "residual connections after the norms");
  }
  if (!c.boolean("post_layer_norm", true)) {
    c.refuse("post_layer_norm", "a model without a final norm");
  }
}

constexpr std::array kEncoderFamilies = {
    Family{"bert", bert},
    Family{"roberta", bert},
    Family{"xlm-roberta", bert},
    Family{"camembert", bert},
    Family{"t5", t5},
    Family{"switch_transformers", switch_transformers},
    Family{"gpt_neo", gpt_neo},
    Family{"bloom", bloom},
    Family{"chatglm", chatglm},
};

}  // namespace

std::span<const Family> encoder_families() { return kEncoderFamilies; }

}  // namespace stepcast::config
