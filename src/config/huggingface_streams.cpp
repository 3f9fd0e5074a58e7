// Families with several residual streams.
#include <algorithm>
#include <array>

#include "huggingface_config.h"

namespace stepcast::config {

using job::Model;

namespace {

// A layer's kind of attention by the tokens of an entry, as published config.json files have it
// (transformers 5.24.0, models/deepseek_v4/configuration_deepseek_v4.py:28,
// _COMPRESS_RATIO_TO_LAYER_TYPE); the list may go on over prediction layers.
std::optional<std::string> letters_of_ratios(Config& c, const Model& m,
                                             const job::CompressedAttention& a) {
  const Value* list = c.find("compress_ratios");
  if (list == nullptr) {
    return std::nullopt;
  }
  std::string out;
  for (const Value& item : list->items) {
    const auto ratio = read_integer(c.reader(), item, 0, kWide);
    const bool known = ratio && (*ratio == 0 || *ratio == a.sparse_rate || *ratio == a.heavy_rate);
    if (!known) {
      c.refuse("compress_ratios", "entries of another number of tokens");
      return std::nullopt;
    }
    out += *ratio == 0 ? 'w' : *ratio == a.sparse_rate ? 'c' : 'h';
  }
  if (static_cast<int>(out.size()) < m.layers) {
    c.refuse("compress_ratios", "fewer entries than num_hidden_layers");
    return std::nullopt;
  }
  out.resize(static_cast<std::size_t>(m.layers));
  return repeated(out);
}

// Two layers with all entries, then every second one with chosen ones (:269).
std::string default_letters(int layers) {
  std::string out;
  for (int i = 0; i < layers; ++i) {
    out += i < 2 || i % 2 == 0 ? 'h' : 'c';
  }
  return repeated(out);
}

void compressed_attention(Config& c, Model& m) {
  job::CompressedAttention a;
  c.integer(a.q_lora_rank, {"q_lora_rank"});
  c.integer(a.rope_dim, {"qk_rope_head_dim"}, m.head_dim / 8);
  c.integer(a.o_groups, {"o_groups"});
  c.integer(a.o_lora_rank, {"o_lora_rank"});
  if (const Value* rates = c.find("compress_rates")) {
    Config inner(c.reader(), *rates);
    inner.integer(a.sparse_rate, {"compressed_sparse_attention"}, a.sparse_rate);
    inner.integer(a.heavy_rate, {"heavily_compressed_attention"}, a.heavy_rate);
  }
  c.integer(a.sparse_rate, {"compress_rate_csa"}, a.sparse_rate);
  c.integer(a.heavy_rate, {"compress_rate_hca"}, a.heavy_rate);
  c.integer(m.sliding_window, {"sliding_window"}, 128);
  const auto named = layer_letters(c, "layer_types",
                                   {{"sliding_attention", 'w'},
                                    {"compressed_sparse_attention", 'c'},
                                    {"heavily_compressed_attention", 'h'}});
  const auto counted = letters_of_ratios(c, m, a);
  m.mixers = named ? *named : counted.value_or(default_letters(std::max(m.layers, 0)));
  job::Indexer x;
  c.integer(x.heads, {"index_n_heads"});
  c.integer(x.dim, {"index_head_dim"});
  c.integer(x.topk, {"index_topk"});
  m.indexer = x;
  m.compressed = a;
}

// Layers whose experts a table names: the first ones, or those that a list names.
int hash_layers(Config& c, const Model& m) {
  int first = std::min(3, m.layers);
  c.integer(first, {"num_hash_layers"}, first);
  const Value* list = c.find("mlp_layer_types");
  if (list == nullptr) {
    return first;
  }
  first = 0;
  for (std::size_t i = 0; i < list->items.size(); ++i) {
    if (is_word(list->items[i], "hash_moe")) {
      if (first != static_cast<int>(i)) {
        c.refuse("mlp_layer_types", "a table of experts behind layers that choose them");
        return 0;
      }
      ++first;
    } else if (!is_word(list->items[i], "moe")) {
      c.refuse("mlp_layer_types", "layers without experts");
      return 0;
    }
  }
  return first;
}

// transformers 5.24.0, models/deepseek_v4: modeling_deepseek_v4.py:885 (hyper-connections), :765
// (attention), :1098 (the table of experts). Its prediction layer is nemo-automodel's (0.7.0,
// components/models/deepseek_v4/mtp.py).
void deepseek_v4(Config& c, Model& m) {
  llama_shapes(c, m);
  c.integer(m.head_dim, {"head_dim"}, 512);
  m.sinks = true;
  attention_biases(c, m, false);
  m.biases.mlp = c.boolean("mlp_bias", false);
  compressed_attention(c, m);
  job::HyperConnections hyper;
  c.integer(hyper.streams, {"hc_mult"}, 4);
  c.integer(hyper.sinkhorn, {"hc_sinkhorn_iters"}, 20);
  m.hyper_connections = hyper;
  job::Moe moe;
  c.integer(moe.experts, {"n_routed_experts"});
  c.integer(moe.topk, {"num_experts_per_tok"});
  c.integer(moe.ffn, {"moe_intermediate_size"});
  c.integer(moe.shared_experts, {"n_shared_experts"}, 1);
  moe.router_bias = true;
  moe.hash_layers = hash_layers(c, m);
  m.moe = moe;
  prediction_layers(c, m, {"num_nextn_predict_layers"});
  c.seen({"hc_eps", "compress_rope_theta", "topk_method", "expert_dtype"});
}

constexpr std::array kStreamFamilies = {Family{"deepseek_v4", deepseek_v4}};

}  // namespace

std::span<const Family> stream_families() { return kStreamFamilies; }

}  // namespace stepcast::config
