#include <fmt/core.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "tables.h"

namespace stepcast::config {

using job::Biases;
using job::Mla;
using job::Model;
using job::Moe;

namespace {

const Table<Moe>& moe_table() {
  static const Table<Moe> table = {
      integer("experts", &Moe::experts, 1, 100'000, "Routed experts of an MoE layer."),
      integer("topk", &Moe::topk, 1, 100'000, "Experts that each token visits."),
      integer("ffn", &Moe::ffn, 1, kWide, "Hidden width of one routed expert."),
      integer("shared_experts", &Moe::shared_experts, 0, 10'000,
              "Experts that every token visits."),
      integer("shared_ffn", &Moe::shared_ffn, 0, kWide,
              "Hidden width of one shared expert; 0: the same as moe.ffn."),
      integer(
          "latent", &Moe::latent, 0, kWide,
          "Width of the latent space in which the routed experts work: tokens are projected to "
          "it ahead of their dispatch, and back behind the sum over experts (Nemotron 3 Ultra); "
          "0: they work on the hidden width."),
      boolean("latent_norm", &Moe::latent_norm,
              "A norm of the routed experts' sum in the latent space (Kimi K3)."),
      integer("dense_layers", &Moe::dense_layers, 0, kManyLayers,
              "The first n layers keep a dense MLP of width ffn."),
      integer("hash_layers", &Moe::hash_layers, 0, kManyLayers,
              "In the first n layers a table names each token's experts (DeepSeek-V4)."),
      integer("every", &Moe::every, 1, kManyLayers, "One MoE layer in every n layers."),
      boolean("router_bias", &Moe::router_bias,
              "A selection bias per expert (DeepSeek-V3): a parameter without a gradient."),
      boolean("shared_gate", &Moe::shared_gate, "A sigmoid gate on the shared expert (Qwen2-MoE)."),
      boolean("branch_norms", &Moe::branch_norms,
              "Router, routed and shared experts each norm the residual stream for themselves, and "
              "what both kinds of experts return is normed before it is summed (Gemma 4)."),
      integer("router_groups", &Moe::router_groups, 1, 100'000,
              "Equal groups of experts to which routing is limited (DeepSeek-V3: 8); 1: no limit."),
      integer("router_group_topk", &Moe::router_group_topk, 1, 100'000,
              "Groups from which a token's experts come (DeepSeek-V3: 4)."),
  };
  return table;
}

const Table<Mla>& mla_table() {
  static const Table<Mla> table = {
      integer("q_lora_rank", &Mla::q_lora_rank, 0, 1'000'000,
              "Rank of the query projection; 0: queries are projected directly."),
      integer("kv_lora_rank", &Mla::kv_lora_rank, 1, 1'000'000,
              "Rank of the joint key and value projection."),
      integer("qk_nope_dim", &Mla::qk_nope_dim, 1, 1'000'000,
              "Dimensions of a head's query and key without rotary positions."),
      integer("qk_rope_dim", &Mla::qk_rope_dim, 1, 1'000'000,
              "Dimensions of a head's query and key with rotary positions."),
      integer("v_dim", &Mla::v_dim, 1, 1'000'000, "Dimensions of a head's value."),
  };
  return table;
}

const Table<Biases>& biases_table() {
  static const Table<Biases> table = {
      boolean("qkv", &Biases::qkv, "Of the query, key and value projections."),
      boolean("attention_out", &Biases::attention_out, "Of the attention's output projection."),
      boolean("mlp", &Biases::mlp, "Of the MLP's matrices."),
      boolean("head", &Biases::head, "Of the output head."),
  };
  return table;
}

// `biases: true` stands for all biases of a block.
Field<Model> biases() {
  Field<Model> f = section("biases", &Model::biases, biases_table(),
                           "Bias vectors: true for all of a block's matrices, or one by one.");
  f.spec.schema = any_of({type_schema("boolean"), object_schema(f.spec.children)});
  f.reads([](Reader& r, const Value& v, Model& m) {
    if (v.kind == Value::Kind::map) {
      read_table(r, v, biases_table(), m.biases);
    } else if (const auto all = read_boolean(r, v)) {
      m.biases = {*all, *all, *all, false};
    }
  });
  return f;
}

const Table<job::LinearAttention>& linear_table() {
  using L = job::LinearAttention;
  static const Table<L> table = {
      integer("key_heads", &L::key_heads, 1, 1'000'000, "Heads of queries and keys."),
      integer("value_heads", &L::value_heads, 1, 1'000'000,
              "Heads of values, a multiple of key_heads."),
      integer("key_dim", &L::key_dim, 1, 1'000'000, "Dimensions of a head's query and key."),
      integer("value_dim", &L::value_dim, 1, 1'000'000, "Dimensions of a head's value."),
      integer("conv", &L::conv, 1, 1000, "Width of the causal convolution before it."),
      integer("chunk", &L::chunk, 1, 1'000'000, "Tokens of a chunk."),
      boolean("elementwise_decay", &L::elementwise_decay,
              "A decay for each key channel from a low-rank product (Kimi Delta Attention)."),
      boolean("whole_gate", &L::whole_gate,
              "With elementwise_decay: the output's gate is one product instead of a low-rank one "
              "(Kimi K3)."),
  };
  return table;
}

const Table<job::Mamba>& mamba_table() {
  using M = job::Mamba;
  static const Table<M> table = {
      integer("heads", &M::heads, 1, 1'000'000, "Heads of a Mamba-2 layer."),
      integer("head_dim", &M::head_dim, 1, 1'000'000, "Channels of a head."),
      integer("state", &M::state, 1, 1'000'000, "Size of a channel's state."),
      integer("groups", &M::groups, 1, 1'000'000, "Groups of heads that share B and C."),
      integer("conv", &M::conv, 1, 1000, "Width of the causal convolution."),
      integer("chunk", &M::chunk, 1, 1'000'000, "Tokens of a chunk."),
  };
  return table;
}

// One letter per layer, repeated over the layers.
template <class T>
Field<T> letters(const char* key, std::string T::*member, const char* allowed,
                 const char* description) {
  Field<T> f = string(key, member, description);
  tree::put(f.spec.schema, "pattern", tree::string(fmt::format("^[{}]*$", allowed)));
  f.reads([=](Reader& r, const Value& v, T& m) {
    const auto text = read_string(r, v);
    if (!text) {
      return;
    }
    const std::size_t wrong = text->find_first_not_of(allowed);
    if (wrong != std::string::npos) {
      r.fault(v, fmt::format("'{}' names no kind of layer; expected letters of {}", (*text)[wrong],
                             allowed));
      return;
    }
    m.*member = *text;
  });
  return f;
}

const Table<job::Indexer>& indexer_table() {
  using I = job::Indexer;
  static const Table<I> table = {
      integer("heads", &I::heads, 1, 1'000'000, "Heads of the indexer."),
      integer("dim", &I::dim, 1, 1'000'000, "Dimensions of one of its heads."),
      integer("topk", &I::topk, 1, kWide, "Keys that a query attends to."),
      letters(
          "layers", &I::layers, "isa",
          "A letter for each layer, repeated over the layers: i has an indexer, s attends to the "
          "keys that the last one chose (GLM-5.2), a attends to all keys (MiniMax-M3); empty: "
          "every layer has one."),
      integer("block", &I::block, 1, 1'000'000,
              "Keys of a block: each head of the indexer chooses whole blocks, topk keys in all, "
              "for its own group of query heads (MiniMax-M3); 1: single keys, by all its heads."),
  };
  return table;
}

const Table<job::WindowHeads>& window_heads_table() {
  using W = job::WindowHeads;
  static const Table<W> table = {
      integer("heads", &W::heads, 1, 1'000'000, "Query heads of a window layer."),
      integer("kv_heads", &W::kv_heads, 1, 1'000'000, "Its key and value heads."),
      integer("head_dim", &W::head_dim, 1, 1'000'000, "Dimensions of its queries and keys."),
      integer("v_dim", &W::v_dim, 0, 1'000'000, "Dimensions of its values; 0: head_dim."),
  };
  return table;
}

const Table<job::HyperConnections>& hyper_table() {
  using H = job::HyperConnections;
  static const Table<H> table = {
      integer("streams", &H::streams, 2, 64, "Residual streams."),
      integer("sinkhorn", &H::sinkhorn, 1, 1000,
              "Iterations that normalise the rows and columns of the weights that mix streams."),
  };
  return table;
}

const Table<job::CompressedAttention>& compressed_table() {
  using C = job::CompressedAttention;
  static const Table<C> table = {
      integer("q_lora_rank", &C::q_lora_rank, 1, 1'000'000, "Rank of the query projection."),
      integer("rope_dim", &C::rope_dim, 1, 1'000'000,
              "Dimensions of a head with rotary positions."),
      integer("o_groups", &C::o_groups, 1, 1'000'000,
              "Groups of heads, each projected by itself ahead of the output projection."),
      integer("o_lora_rank", &C::o_lora_rank, 1, 1'000'000,
              "Columns to which a group is projected."),
      integer("sparse_rate", &C::sparse_rate, 1, kWide,
              "Tokens of an entry in layers c, whose indexer chooses entries."),
      integer("heavy_rate", &C::heavy_rate, 1, kWide,
              "Tokens of an entry in layers h, which attend to all entries."),
  };
  return table;
}

const Table<job::LayerEmbedding>& layer_embedding_table() {
  using E = job::LayerEmbedding;
  static const Table<E> table = {
      integer("width", &E::width, 1, kWide, "Elements of a token's embedding for one layer."),
      integer("vocab", &E::vocab, 0, kWide, "Rows of the table; 0: those of the word embedding."),
  };
  return table;
}

Field<job::Modules> liger_operators() {
  using L = job::LigerOperators;
  struct Named {
    const char* name;
    bool L::*has;
  };
  static constexpr std::array kNamed = {
      Named{"rope", &L::rope},
      Named{"rms_norm", &L::rms_norm},
      Named{"qk_norm", &L::qk_norm},
      Named{"glu", &L::glu},
      Named{"experts", &L::experts},
      Named{"cross_entropy", &L::loss},
      Named{"fused_linear_cross_entropy", &L::linear_loss},
  };
  std::vector<std::string> names;
  for (const Named& one : kNamed) {
    names.emplace_back(one.name);
  }
  return custom<job::Modules>(
      "liger",
      "Operators that Liger-Kernel has for them (kernels.liger; qk_norm: its rms_norm is that of "
      "queries and keys too); left out: all, as for Llama and Mixtral.",
      array_schema(enum_schema(names)),
      [names](Reader& r, const Value& v, job::Modules& into) {
        if (v.kind != Value::Kind::sequence) {
          r.expected(v, "a list of operators such as [rms_norm, glu]");
          return;
        }
        for (const Named& one : kNamed) {
          into.liger.*one.has = false;
        }
        for (const Value& item : v.items) {
          if (const auto i = read_word(r, item, names, {})) {
            into.liger.*kNamed[*i].has = true;
          }
        }
      },
      [](const job::Modules& from) -> std::optional<Value> {
        if (from.liger == L{}) {
          return std::nullopt;
        }
        std::vector<std::string> has;
        for (const Named& one : kNamed) {
          if (from.liger.*one.has) {
            has.emplace_back(one.name);
          }
        }
        return tree::strings(has);
      });
}

const Table<job::Modules>& modules_table() {
  using M = job::Modules;
  static const Table<M> table = {
      boolean("eager_attention", &M::eager_attention,
              "They have no scaled_dot_product_attention (caps, sinks, ALiBi, old modules): "
              "attention is unfused, unless kernels.attention is stated."),
      boolean("masked_attention", &M::masked_attention,
              "Attention is given a mask in every layer: system.attention_masks is all."),
      boolean("packed_qkv", &M::packed_qkv, "As system.packed_qkv."),
      boolean("copied_qkv", &M::copied_qkv, "As system.copied_qkv."),
      boolean("packed_gated_mlp", &M::packed_gated_mlp, "As system.packed_gated_mlp."),
      boolean("joined_rotary", &M::joined_rotary, "As system.joined_rotary."),
      boolean("wide_norm", &M::wide_norm, "As system.wide_norm."),
      boolean("every_token", &M::every_token, "As moe.every_token."),
      boolean("logsumexp_sinks", &M::logsumexp_sinks,
              "Sinks scale attention's result by a log-sum-exp of its scores, where attention is "
              "unfused; else they are a column beside the scores."),
      liger_operators(),
  };
  return table;
}

Field<Model> widths() {
  return custom<Model>(
      "ffns",
      "Hidden widths of the dense MLPs where layers differ, one for each layer, repeated over the "
      "layers (Llama-Nemotron); 0 for a layer without one. Empty: ffn in every layer.",
      any_of({array_schema(integer_schema(0)), type_schema("null")}),
      [](Reader& r, const Value& v, Model& m) {
        m.ffns.clear();
        if (is_null(v)) {
          return;
        }
        if (v.kind != Value::Kind::sequence) {
          r.expected(v, "a list of widths");
          return;
        }
        for (const Value& one : v.items) {
          if (const auto n = read_integer(r, one, 0, kWide)) {
            m.ffns.push_back(*n);
          }
        }
      },
      [](const Model& m) { return tree::integers(m.ffns); });
}

// Part of published models that is not modelled: a job can only state that it is left out.
Field<Model> vision() {
  return custom<Model>(
      "vision",
      "A vision tower of an included config.json: only null, to forecast the language model "
      "alone.",
      type_schema("null"),
      [](Reader& r, const Value& v, Model&) {
        if (!is_null(v)) {
          not_modelled(r, v, "a vision tower", "null");
        }
      },
      [](const Model&) { return std::nullopt; });
}

// null: no sliding window.
Field<Model> window() {
  Field<Model> f = integer("sliding_window", &Model::sliding_window, 0, kWide,
                           "Number of keys that a query of a sliding-window layer attends to; null "
                           "or 0: there are no such layers.");
  f.spec.schema = any_of({f.spec.schema, type_schema("null")});
  f.reads([](Reader& r, const Value& v, Model& m) {
    if (is_null(v)) {
      m.sliding_window = 0;
    } else if (const auto n = read_integer(r, v, 0, kWide)) {
      m.sliding_window = *n;
    }
  });
  return f;
}

}  // namespace

const Table<Model>& model_table() {
  static const Table<Model> table = {
      string("name", &Model::name, "Shown in reports; nothing depends on it."),
      integer("layers", &Model::layers, 1, kManyLayers, "Transformer layers."),
      integer("hidden", &Model::hidden, 1, kWide, "Width of the residual stream."),
      integer("heads", &Model::heads, 1, 1'000'000, "Attention heads (query heads)."),
      integer("kv_heads", &Model::kv_heads, 0, 1'000'000,
              "Key and value heads; 0 or left out: as many as heads."),
      integer("head_dim", &Model::head_dim, 0, 1'000'000,
              "Dimensions of a head; 0 or left out: hidden / heads."),
      integer("ffn", &Model::ffn, 0, kWide,
              "Hidden width of the MLP; 0 or left out: 4 * hidden (not for gated_mlp)."),
      widths(),
      integer("vocab", &Model::vocab, 1, kWide, "Rows of the embedding, padding included."),
      integer("max_positions", &Model::max_positions, 0, 1'000'000'000,
              "Rows of a learned position embedding; 0 or left out: the sequence length."),
      boolean("gated_mlp", &Model::gated_mlp, "A gated MLP (SwiGLU): three matrices, not two."),
      choice(
          "activation", &Model::activation,
          "The MLP's activation: gelu stands for each that is one kernel and keeps what it reads "
          "(SiLU), relu keeps its result, gelu_new is GPT-2's form with tanh and relu2 the square "
          "of ReLU, which system.composed_gelu takes apart."),
      boolean("tied_embeddings", &Model::tied_embeddings,
              "The output head shares the embedding's weights."),
      choice("norm", &Model::norm,
             "The normalisation: layer norm (weight and bias, without the bias, or without both) "
             "or RMS norm (weight)."),
      choice("positions", &Model::positions,
             "How positions are encoded: a learned embedding, rotary, none, slopes on the "
             "attention scores (ALiBi), or learned biases by distance (T5)."),
      biases(),
      boolean("qk_norm", &Model::qk_norm, "A norm over each head's query and key (Qwen3)."),
      boolean("value_norm", &Model::value_norm,
              "A norm without weights over each head's value, beside qk_norm (Gemma 4)."),
      boolean("keys_as_values", &Model::keys_as_values,
              "Values are the keys before their norm, without a projection of their own, except in "
              "sliding-window layers (Gemma 4)."),
      boolean("parallel_block", &Model::parallel_block,
              "Attention and MLP read the same norm and are added to the residual stream together "
              "(GPT-J)."),
      number("dropout", &Model::dropout, 0, 0.999, "Hidden and attention dropout probability."),
      optional_section("moe", &Model::moe, moe_table(), "Mixture of experts; null: a dense model."),
      optional_section("mla", &Model::mla, mla_table(),
                       "Multi-head latent attention; null: ordinary heads."),
      window(),
      integer("mtp_layers", &Model::mtp_layers, 0, 1000,
              "Multi-token prediction layers after the last layer (DeepSeek-V3)."),
      boolean("mtp_repeated", &Model::mtp_repeated,
              "The prediction layers are one layer, with one set of weights, that runs mtp_layers "
              "times (Nemotron 3)."),
      letters(
          "mixers", &Model::mixers, "awchlm-",
          "What mixes tokens in each layer, one letter per layer, repeated over the layers: a "
          "attention, w sliding-window attention, c and h compressed attention, l linear "
          "attention, m Mamba-2, - nothing. Empty: w in every layer with a sliding_window, else "
          "a."),
      letters("mlps", &Model::mlps, "de-",
              "The MLP of each layer, one letter per layer, repeated over the layers: d dense, e "
              "experts, - none. Empty: as moe states."),
      integer("encoder_layers", &Model::encoder_layers, 0, kManyLayers,
              "Number of layers, from the first, without a causal mask. All layers: an encoder "
              "(BERT); fewer: the others are a decoder with cross-attention (T5)."),
      integer("encoder_sequence", &Model::encoder_sequence, 0, kWide,
              "Tokens of an encoder-decoder model's input; 0: workload.sequence_length."),
      boolean("chunked_window", &Model::chunked_window,
              "A query attends to the earlier keys in its own chunk of sliding_window tokens "
              "(Llama 4)."),
      boolean("sinks", &Model::sinks, "A learned logit per head in the softmax (gpt-oss)."),
      boolean("attention_softcap", &Model::attention_softcap,
              "Scores of attention are bounded by tanh (Gemma 2): three kernels more where "
              "attention is not fused."),
      boolean(
          "logit_softcap", &Model::logit_softcap,
          "Logits are bounded by tanh ahead of the loss (Gemma 2): three kernels, left out where "
          "the loss takes logits in chunks."),
      section("modules", &Model::modules, modules_table(),
              "What transformers' modules of this model do otherwise than those of its Llama, for "
              "systems with transformers_modules; a config.json says it by its model_type."),
      boolean(
          "attention_gate", &Model::attention_gate,
          "A sigmoid gate on attention's output (Qwen3-Next), latent attention's too (Kimi K3)."),
      boolean("qk_norm_whole", &Model::qk_norm_whole,
              "qk_norm has a weight for each channel of all heads (MiniMax-M2)."),
      boolean("sandwich_norms", &Model::sandwich_norms,
              "A norm after each block as well as before it (Gemma 2)."),
      boolean("output_norms", &Model::output_norms,
              "The norm of a block is of its result, before that is added to the stream, which the "
              "block reads as it is (OLMo 2)."),
      boolean("parallel_norms", &Model::parallel_norms,
              "A parallel block's MLP has a norm of its own (GPT-NeoX)."),
      boolean("post_norm", &Model::post_norm,
              "Norms follow the residual adds, and there is no final norm (BERT)."),
      boolean("embedding_norm", &Model::embedding_norm, "A norm over the embeddings (BLOOM)."),
      boolean("head_transform", &Model::head_transform,
              "A square product, activation and norm before the output projection (BERT)."),
      integer("token_types", &Model::token_types, 0, 1'000'000,
              "Rows of a segment embedding (BERT)."),
      integer("relative_buckets", &Model::relative_buckets, 1, 1'000'000,
              "Rows of each table of relative positions (T5)."),
      integer("v_dim", &Model::v_dim, 0, 1'000'000,
              "Dimensions of a head's value; 0 or left out: head_dim."),
      optional_section("linear", &Model::linear, linear_table(),
                       "Linear attention by the gated delta rule; null: none."),
      optional_section("mamba", &Model::mamba, mamba_table(), "Mamba-2 layers; null: none."),
      optional_section("indexer", &Model::indexer, indexer_table(),
                       "Sparse attention to the keys that an indexer chooses; null: none."),
      optional_section("window_heads", &Model::window_heads, window_heads_table(),
                       "Heads of sliding-window layers where they differ from those of the other "
                       "layers; null: they are the same."),
      optional_section("hyper_connections", &Model::hyper_connections, hyper_table(),
                       "Several residual streams, which every block reads as a weighted sum and "
                       "mixes (DeepSeek-V4); null: one."),
      optional_section(
          "compressed", &Model::compressed, compressed_table(),
          "Attention to a window (w), and to entries that stand for several tokens "
          "each: chosen by an indexer (c), or all of them (h); one head is every query "
          "head's key and value (DeepSeek-V4); null: other attention."),
      integer(
          "attention_residual_block", &Model::residual_block, 0, kManyLayers,
          "Attention residuals (Kimi K3): the number of layers of a block. Each sublayer reads a "
          "mixture, weighted by attention, of the streams with which the blocks so far began "
          "and of the present one. 0: one residual stream."),
      optional_section("layer_embedding", &Model::layer_embedding, layer_embedding_table(),
                       "An embedding of each token for each layer (Gemma 4); null: none."),
      integer(
          "shared_kv_layers", &Model::shared_kv_layers, 0, kManyLayers,
          "The last n layers make no keys and values: each attends to those of the last layer of "
          "its kind before them (Gemma 4)."),
      integer("bf16_start_layers", &Model::bf16_start_layers, 0, kManyLayers,
              "So many of the first layers run their products in 16 bits where "
              "workload.precision has fewer (Megatron-LM, --num-layers-at-start-in-bf16)."),
      integer("bf16_end_layers", &Model::bf16_end_layers, 0, kManyLayers,
              "So many of the last layers do (--num-layers-at-end-in-bf16)."),
      choice("checkpoint", &Model::checkpoint, some_words({DType::fp32, DType::bf16, DType::fp16}),
             "Format of the published weights, in which they are trained where a system loads them "
             "as they are stored (system.loads_as_stored)."),
      vision(),
  };
  return table;
}

}  // namespace stepcast::config
