#include "named.h"

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
      integer("dense_layers", &Moe::dense_layers, 0, kManyLayers,
              "The first n layers keep a dense MLP of width ffn."),
      integer("every", &Moe::every, 1, kManyLayers, "One MoE layer in every n layers."),
      boolean("router_bias", &Moe::router_bias,
              "A selection bias per expert (DeepSeek-V3): a parameter without a gradient."),
      boolean("shared_gate", &Moe::shared_gate, "A sigmoid gate on the shared expert (Qwen2-MoE)."),
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

// `biases: true` is short for all of a block's.
Field<Model> biases() {
  Field<Model> f = section("biases", &Model::biases, biases_table(),
                           "Bias vectors: true for all of a block's matrices, or one by one.");
  f.spec.schema = any_of({type_schema("boolean"), object_schema(f.spec.children)});
  const auto read_map = f.read;
  f.read = [read_map](Reader& r, const Value& v, Model& m) {
    if (v.kind == Value::Kind::map) {
      read_map(r, v, m);
    } else if (const auto all = read_boolean(r, v)) {
      m.biases = {*all, *all, *all, false};
    }
  };
  return f;
}

// Keys of the interface whose features are not modelled: only their absence can be said.
Field<Model> absent(std::string key, std::string word, std::string feature,
                    std::string description) {
  Field<Model> f;
  f.spec = {std::move(key),
            std::move(description),
            any_of({type_schema("null"), type_schema("integer")}),
            false,
            false,
            {}};
  f.read = [=](Reader& r, const Value& v, Model&) {
    if (!is_null(v) && !is_word(v, word)) {
      not_modelled(r, v, feature, word);
    }
  };
  f.write = [=](const Model&) -> std::optional<Value> {
    return word == "null" ? tree::null() : tree::number(std::int64_t{0});
  };
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
      integer("vocab", &Model::vocab, 1, kWide, "Rows of the embedding, padding included."),
      integer("max_positions", &Model::max_positions, 0, 1'000'000'000,
              "Rows of a learned position embedding; 0 or left out: the sequence length."),
      boolean("gated_mlp", &Model::gated_mlp, "A gated MLP (SwiGLU): three matrices, not two."),
      boolean("tied_embeddings", &Model::tied_embeddings,
              "The output head shares the embedding's weights."),
      choice("norm", &Model::norm,
             Words<job::Norm>{{{"layer", job::Norm::layer}, {"rms", job::Norm::rms}}, {}},
             "The normalisation: layer norm (weight and bias) or RMS norm (weight)."),
      choice("positions", &Model::positions,
             Words<job::Positions>{{{"learned", job::Positions::learned},
                                    {"rotary", job::Positions::rotary},
                                    {"none", job::Positions::none}},
                                   {"alibi", "relative"}},
             "How positions enter: a learned embedding, rotary, or not at all."),
      biases(),
      boolean("qk_norm", &Model::qk_norm, "A norm over each head's query and key (Qwen3)."),
      boolean("parallel_block", &Model::parallel_block,
              "Attention and MLP read the same norm and add to the stream at once (GPT-J)."),
      number("dropout", &Model::dropout, 0, 0.999, "Hidden and attention dropout probability."),
      optional_section("moe", &Model::moe, moe_table(), "Mixture of experts; null: a dense model."),
      optional_section("mla", &Model::mla, mla_table(),
                       "Multi-head latent attention; null: ordinary heads."),
      absent("sliding_window", "null", "sliding-window attention",
             "Attention within a window: not modelled yet, only null."),
      absent("mtp_layers", "0", "multi-token prediction",
             "Multi-token prediction layers: not modelled yet, only 0."),
  };
  return table;
}

}  // namespace stepcast::config
