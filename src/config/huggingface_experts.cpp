// Families of experts behind attention like Llama's. Keys that a file may leave out, which matrices
// have a bias and which routers one for their choice are those of transformers 5.23.0:
// models/TYPE/configuration_TYPE.py and modeling_TYPE.py.
#include <array>

#include "huggingface_config.h"

namespace stepcast::config {

using job::Model;

namespace {

// The keys of DeepSeek's experts, which later families took over.
void deepseek_experts(Config& c, Model& m) {
  job::Moe moe;
  c.integer(moe.experts, {"n_routed_experts", "num_experts"});
  c.integer(moe.topk, {"num_experts_per_tok"});
  c.integer(moe.ffn, {"moe_intermediate_size"});
  c.integer(moe.shared_experts, {"n_shared_experts", "num_shared_experts"}, 0);
  c.integer(moe.dense_layers, {"first_k_dense_replace", "num_dense_layers"}, 0);
  c.integer(moe.router_groups, {"n_group"}, 1);
  c.integer(moe.router_group_topk, {"topk_group"}, 1);
  moe.router_bias = true;
  m.moe = moe;
  sparse_layers(c, m);
  prediction_layers(c, m, {"num_nextn_predict_layers"});
  c.seen({"router_scaling_factor", "route_scale", "route_norm", "score_func",
          "enable_moe_fp32_combine"});
}

// Experts in every layer, of the MLP's width.
void experts_of_width(Config& c, Model& m, std::initializer_list<const char*> number,
                      std::int64_t absent, std::int64_t absent_topk) {
  job::Moe moe;
  c.integer(moe.experts, number, absent);
  c.integer(moe.topk, {"num_experts_per_tok"}, absent_topk);
  moe.ffn = m.ffn;
  m.moe = moe;
}

void glm4_moe(Config& c, Model& m) {
  llama_shapes(c, m);
  m.biases.qkv = c.boolean("attention_bias", false);
  m.qk_norm = c.boolean("use_qk_norm", false);
  deepseek_experts(c, m);
}

void glm4_moe_lite(Config& c, Model& m) {
  llama_shapes(c, m);
  latent_attention(c, m);
  deepseek_experts(c, m);
}

void dots1(Config& c, Model& m) {
  llama_shapes(c, m);
  attention_biases(c, m, false);
  m.qk_norm = true;
  deepseek_experts(c, m);
  windows(c, m, 0, "");
}

void exaone_moe(Config& c, Model& m) {
  llama_shapes(c, m);
  m.qk_norm = true;
  deepseek_experts(c, m);
  windows(c, m, 4096, "wwwa");
}

void hy_v3(Config& c, Model& m) {
  llama_shapes(c, m);
  attention_biases(c, m, false);
  if (c.boolean("mlp_bias", false)) {
    c.refuse("mlp_bias", "biases of dense MLPs beside experts without");
  }
  m.qk_norm = true;
  deepseek_experts(c, m);
}

// Norms on both sides of each block, a gate on attention's result.
void afmoe(Config& c, Model& m) {
  llama_shapes(c, m);
  if (c.boolean("attention_bias", false)) {
    c.refuse("attention_bias", "biases beside a gate without one");
  }
  m.qk_norm = m.sandwich_norms = m.attention_gate = true;
  deepseek_experts(c, m);
  windows(c, m, 1024, "wwwa");
  c.seen({"mup_enabled"});
}

void granitemoe(Config& c, Model& m) {
  llama_shapes(c, m);
  attention_biases(c, m, false);
  experts_of_width(c, m, {"num_local_experts"}, 8, 2);
  c.integer(m.moe->shared_ffn, {"shared_intermediate_size"}, 0);
  m.moe->shared_experts = m.moe->shared_ffn > 0 ? 1 : 0;
}

void granitemoe_swa(Config& c, Model& m) {
  granitemoe(c, m);
  m.sinks = true;
  windows(c, m, 128, "awww");
  c.seen({"layer_rope_theta"});
}

// OLMo's attention of its second generation.
void olmo_experts(Config& c, Model& m, std::int64_t experts, std::int64_t topk) {
  llama_shapes(c, m);
  attention_biases(c, m, false);
  m.qk_norm = m.qk_norm_whole = true;
  experts_of_width(c, m, {"num_experts", "num_local_experts"}, experts, topk);
  c.seen({"clip_qkv"});  // bounds of queries, keys and values, whose kernels are left out
}

void olmoe(Config& c, Model& m) { olmo_experts(c, m, 64, 8); }
void flex_olmo(Config& c, Model& m) { olmo_experts(c, m, 7, 5); }

void phimoe(Config& c, Model& m) {
  llama_shapes(c, m);
  m.norm = job::Norm::layer;
  attention_biases(c, m, false);
  m.biases.head = c.boolean("lm_head_bias", false);
  experts_of_width(c, m, {"num_local_experts"}, 16, 2);
  dropouts(c, m, {"attention_dropout", "hidden_dropout"}, m.dropout);
  c.integer(m.sliding_window, {"sliding_window"}, 0);
  c.seen({"input_jitter_noise"});
}

void hunyuan_moe(Config& c, Model& m) {
  llama_shapes(c, m);
  attention_biases(c, m, false);
  m.qk_norm = true;
  job::Moe moe;
  c.integer(moe.experts, {"num_experts"}, 1);
  const Value* topk = c.find("moe_topk");
  if (topk != nullptr && topk->kind == Value::Kind::sequence) {
    for (const Value& item : topk->items) {
      if (!is_word(item, topk->items.front().scalar)) {
        c.refuse("moe_topk", "layers that differ in the experts of a token");
        break;
      }
    }
    Reader::Scope scope(c.reader(), "moe_topk");
    if (!topk->items.empty()) {
      moe.topk =
          static_cast<int>(read_integer(c.reader(), topk->items.front(), 1, kWide).value_or(1));
    }
  } else {
    c.integer(moe.topk, {"moe_topk"}, 1);
  }
  moe.ffn = m.ffn;
  moe.shared_experts = 1;
  m.moe = moe;
  c.seen({"eod_token_id"});
}

// Qwen3's experts; a few layers may attend within a window.
void mellum(Config& c, Model& m) {
  llama_shapes(c, m);
  attention_biases(c, m, false);
  m.qk_norm = true;
  job::Moe moe;
  c.integer(moe.experts, {"num_experts", "num_local_experts"});
  c.integer(moe.topk, {"num_experts_per_tok"});
  c.integer(moe.ffn, {"moe_intermediate_size"});
  m.moe = moe;
  sparse_layers(c, m);
  prediction_layers(c, m, {"num_nextn_predict_layers"});
  windows(c, m, 0, "");
}

void ernie4_5_moe(Config& c, Model& m) {
  llama_shapes(c, m);
  m.tied_embeddings = c.boolean("tie_word_embeddings", true);
  if (c.boolean("use_bias", false)) {
    c.refuse("use_bias", "biases of dense MLPs beside experts without");
  }
  job::Moe moe;
  c.integer(moe.experts, {"moe_num_experts"}, 64);
  c.integer(moe.topk, {"moe_k"}, 6);
  c.integer(moe.ffn, {"moe_intermediate_size"}, 1536);
  c.integer(moe.shared_experts, {"moe_num_shared_experts"}, 2);
  moe.router_bias = true;
  // Experts in layers first to last whose number, from 1, is a multiple of `each`
  // (modeling_ernie4_5_moe.py:397).
  int first = 1;
  int each = 1;
  c.integer(first, {"moe_layer_start_index"}, 1);
  c.integer(each, {"moe_layer_interval"}, 1);
  int last = m.layers - 1;
  if (const Value* v = c.find("moe_layer_end_index"); v != nullptr && !is_word(*v, "-1")) {
    c.integer(last, {"moe_layer_end_index"});
  }
  std::string mlps;
  for (int i = 0; i < m.layers; ++i) {
    mlps += i >= first && i <= last && (i + 1) % std::max(each, 1) == 0 ? 'e' : 'd';
  }
  m.mlps = repeated(mlps);
  m.moe = moe;
  prediction_layers(c, m, {"num_nextn_predict_layers"});
  c.seen({"moe_norm_min", "moe_capacity", "moe_use_aux_free", "moe_gate"});
}

void dbrx(Config& c, Model& m) {
  m.norm = job::Norm::layer_without_bias;
  m.positions = job::Positions::rotary;
  m.gated_mlp = true;
  c.integer(m.layers, {"n_layers", "num_hidden_layers"}, 24);
  c.integer(m.hidden, {"d_model", "hidden_size"}, 2048);
  c.integer(m.heads, {"n_heads", "num_attention_heads"}, 16);
  c.integer(m.vocab, {"vocab_size"}, 32000);
  m.head_dim = m.heads > 0 ? static_cast<int>(m.hidden / m.heads) : 0;
  m.kv_heads = 1;
  m.tied_embeddings = c.boolean("tie_word_embeddings", false);
  dropouts(c, m, {"resid_pdrop", "emb_pdrop"}, 0);
  if (const Value* attention = c.find("attn_config")) {
    Config(c.reader(), *attention).integer(m.kv_heads, {"kv_n_heads"}, 1);
  }
  job::Moe moe;
  moe.experts = 4;
  moe.topk = 1;
  moe.ffn = 3584;
  if (const Value* ffn = c.find("ffn_config")) {
    Config inner(c.reader(), *ffn);
    inner.integer(moe.experts, {"moe_num_experts"}, 4);
    inner.integer(moe.topk, {"moe_top_k"}, 1);
    inner.integer(moe.ffn, {"ffn_hidden_size"}, 3584);
  }
  m.ffn = moe.ffn;
  m.moe = moe;
  c.seen({"max_seq_len", "num_key_value_heads"});  // the second repeats attn_config
}

constexpr std::array kExpertFamilies = {
    Family{"glm4_moe", glm4_moe},
    Family{"glm4v_moe_text", glm4_moe},
    Family{"glm4_moe_lite", glm4_moe_lite},
    Family{"solar_open", glm4_moe},
    Family{"dots1", dots1},
    Family{"exaone_moe", exaone_moe},
    Family{"hy_v3", hy_v3},
    Family{"afmoe", afmoe},
    Family{"granitemoe", granitemoe},
    Family{"granitemoeshared", granitemoe},
    Family{"granitemoe_swa", granitemoe_swa},
    Family{"olmoe", olmoe},
    Family{"flex_olmo", flex_olmo},
    Family{"phimoe", phimoe},
    Family{"hunyuan_v1_moe", hunyuan_moe},
    Family{"mellum", mellum},
    Family{"ernie4_5_moe", ernie4_5_moe},
    Family{"dbrx", dbrx},
};

}  // namespace

std::span<const Family> expert_families() { return kExpertFamilies; }

}  // namespace stepcast::config
