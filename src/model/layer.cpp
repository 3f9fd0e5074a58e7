#include <algorithm>

#include "builder.h"

namespace stepcast::model {
namespace {

char letter_of(const std::string& letters, int layer) {
  return letters[static_cast<std::size_t>(layer) % letters.size()];
}

LayerKind::Mixer mixer_of(const job::Model& model, int layer) {
  using Mixer = LayerKind::Mixer;
  if (model.mixers.empty()) {
    return model.sliding_window > 0 ? Mixer::window : Mixer::attention;
  }
  switch (letter_of(model.mixers, layer)) {
    case 'w':
      return Mixer::window;
    case 'c':
      return Mixer::compressed;
    case 'h':
      return Mixer::heavily_compressed;
    case 'l':
      return Mixer::linear;
    case 'm':
      return Mixer::mamba;
    case '-':
      return Mixer::none;
    default:
      return Mixer::attention;
  }
}

LayerKind::Mlp mlp_of(const job::Model& model, int layer) {
  using Mlp = LayerKind::Mlp;
  if (!model.mlps.empty()) {
    switch (letter_of(model.mlps, layer)) {
      case 'e':
        return Mlp::moe;
      case '-':
        return Mlp::none;
      default:
        return Mlp::dense;
    }
  }
  if (!model.moe || layer < model.moe->dense_layers) {
    return Mlp::dense;
  }
  // Every n-th layer, the last of each group of n (as in the Switch and GLaM layouts).
  const int every = model.moe->every;
  return every <= 1 || (layer - model.moe->dense_layers) % every == every - 1 ? Mlp::moe
                                                                              : Mlp::dense;
}

// A block between several residual streams.
template <class Add>
Stream add_hyper_block(Builder& b, const std::string& name, Module module, const Stream& streams,
                       Add add) {
  const StreamsRead from = add_streams_read(b, name, streams);
  const Tensor normed = b.residual_stream();
  const Node norm =
      add_norm(b, (name + "_norm").c_str(), module, b.local_tokens, b.hidden,
               norm_width(b.model) * b.hidden, from.read.node, from.read.tensor, normed);
  return add_streams_write(b, name, add(Stream{norm, normed}), from.weights, streams);
}

// One block: a norm, the operators of `add`, and the residual add.
template <class Add>
Stream add_block(Builder& b, const std::string& name, Module module, std::int64_t bias,
                 const Stream& stream, Add add) {
  if (b.model.hyper_connections) {
    return add_hyper_block(b, name, module, stream, add);
  }
  const auto norm = [&](const std::string& which, const Stream& from) -> Stream {
    const Tensor output = b.residual_stream();
    return {add_norm(b, (name + which).c_str(), module, b.local_tokens, b.hidden,
                     norm_width(b.model) * b.hidden, from.node, from.tensor, output),
            output};
  };
  if (b.model.post_norm) {
    const Node block = add(stream);
    const Node sum =
        add_residual(b, (name + "_residual").c_str(), module, bias, block, stream.node);
    return norm("_norm", {sum, b.residual_stream()});
  }
  Node block = add(b.model.output_norms ? stream : norm("_norm", stream));
  if (b.model.output_norms) {
    block = norm("_norm", {block, b.residual_stream()}).node;
  } else if (b.model.sandwich_norms) {
    block = norm("_post_norm", {block, b.residual_stream()}).node;
  }
  const Node sum = add_residual(b, (name + "_residual").c_str(), module, bias, block, stream.node);
  return {sum, b.residual_stream()};
}

Node add_mixer(Builder& b, const Stream& in) {
  switch (b.kind.mixer) {
    case LayerKind::Mixer::linear:
      return add_delta_net(b, in.node, in.tensor);
    case LayerKind::Mixer::mamba:
      return add_mamba(b, in.node, in.tensor);
    default:
      break;
  }
  if (b.model.compressed) {
    return add_compressed(b, in.node, in.tensor);
  }
  const bool chooses = b.model.indexer && !b.kind.chosen_before && !b.kind.attends_all;
  const Node from = chooses ? add_indexer(b, in.node, in.tensor) : in.node;
  return b.model.mla ? add_mla(b, from, in.tensor) : add_attention(b, from, in.tensor);
}

// A norm of the stream.
Stream add_stream_norm(Builder& b, const char* name, Module module, const Stream& stream) {
  const Tensor output = b.residual_stream();
  return {add_norm(b, name, module, b.local_tokens, b.hidden, norm_width(b.model) * b.hidden,
                   stream.node, stream.tensor, output),
          output};
}

// The MLP or the experts of a layer, which read `normed`, a norm of `stream`.
Node add_mlp_or_experts(Builder& b, const Stream& stream, const Stream& normed) {
  if (b.kind.mlp != LayerKind::Mlp::moe) {
    return add_mlp(b, Module::mlp, dense_width(b.model, b.kind), normed.node, normed.tensor);
  }
  if (!b.model.moe->branch_norms) {
    return add_moe(b, normed.node, normed.tensor);
  }
  return add_moe(b, stream, add_stream_norm(b, "experts_norm", Module::moe, stream), normed);
}

// Parallel attention and MLP: both read the stream, through one norm or two, and their results are
// added to it.
Stream add_parallel(Builder& b, const Stream& stream, std::int64_t attention_bias,
                    std::int64_t mlp_bias, Module mlp_module) {
  const auto norm = [&](const char* name, Module module) {
    return add_stream_norm(b, name, module, stream);
  };
  const Stream read = norm("attention_norm", Module::attention);
  const Node attention = add_mixer(b, read);
  const Stream other = b.model.parallel_norms ? norm("mlp_norm", mlp_module) : read;
  const Node block = add_mlp_or_experts(b, stream, other);
  const Node sum = add_residual(b, "attention_residual", Module::attention, attention_bias,
                                attention, stream.node);
  return {add_residual(b, "mlp_residual", mlp_module, mlp_bias, block, sum), b.residual_stream()};
}

// A layer whose blocks read what attention over earlier streams makes (residuals.cpp).
Stream add_attending_blocks(Builder& b, Stream stream) {
  const int blocks = b.kind.blocks;
  const Module mlp_module = b.kind.mlp == LayerKind::Mlp::moe ? Module::moe : Module::mlp;
  Stream read = stream;
  if (blocks > 0) {
    read = add_residual_mix(b, "attention", blocks, stream);
  }
  if (b.kind.opens_block) {
    read = {add_block_start(b, read.node), read.tensor};
  }
  const Stream normed = add_stream_norm(b, "attention_norm", Module::attention, read);
  Node node = add_mixer(b, normed);
  if (!b.kind.opens_block) {  // else the sum begins with it
    node = add_residual(b, "attention_residual", Module::attention, 0, node, stream.node);
  }
  stream = {node, b.residual_stream()};
  const Stream other = add_residual_mix(b, "mlp", blocks + (b.kind.opens_block ? 1 : 0), stream);
  const Node block =
      add_mlp_or_experts(b, stream, add_stream_norm(b, "mlp_norm", mlp_module, other));
  return {add_residual(b, "mlp_residual", mlp_module, 0, block, stream.node), b.residual_stream()};
}

// The style of a layer whose products run in 16 bits beside others in fewer.
Style without_low_precision(Style style) {
  style.routing.pads = false;
  style.routing.fp8_dispatch = false;
  style.fp8_attention = false;
  style.fused_casts = false;
  style.casts_apart = false;
  style.fp12_attention_output = false;
  return style;
}

}  // namespace

std::int64_t dense_width(const job::Model& model, const LayerKind& kind) {
  return kind.ffn > 0 ? kind.ffn : model.ffn;
}

LayerKind layer_kind(const job::Model& model, int layer) {
  LayerKind kind;
  kind.prediction = layer >= model.layers;
  const int like = kind.prediction ? model.layers - 1 : layer;
  kind.mixer = mixer_of(model, like);
  kind.mlp = mlp_of(model, like);
  if (!model.ffns.empty() && kind.mlp == LayerKind::Mlp::dense) {
    kind.ffn = model.ffns[static_cast<std::size_t>(like) % model.ffns.size()];
  }
  if (kind.prediction) {
    kind.repeats = model.mtp_repeated && layer > model.layers;
    // A prediction layer is a whole block, with full attention where any layer of the model has it
    // (Qwen3-Next), else like the last layer.
    const bool full = model.mixers.find('a') != std::string::npos;
    kind.mixer = full ? LayerKind::Mixer::attention : kind.mixer;
    // DeepSeek-V4's attends to a window (nemo-automodel 0.7.0,
    // components/models/deepseek_v4/mtp.py:79).
    kind.mixer = model.compressed ? LayerKind::Mixer::window : kind.mixer;
    if (kind.mlp == LayerKind::Mlp::none) {
      kind.mlp = model.moe ? LayerKind::Mlp::moe : LayerKind::Mlp::dense;
    }
    return kind;
  }
  if (model.indexer && !model.indexer->layers.empty()) {
    const std::string& letters = model.indexer->layers;
    kind.chosen_before = letter_of(letters, layer) == 's';
    kind.attends_all = letter_of(letters, layer) == 'a';
  }
  kind.hashed = model.moe && kind.mlp == LayerKind::Mlp::moe && layer < model.moe->hash_layers;
  if (model.residual_block > 0) {
    kind.blocks = (layer + model.residual_block - 1) / model.residual_block;
    kind.opens_block = layer % model.residual_block == 0;
  }
  kind.shares_kv = layer >= model.layers - model.shared_kv_layers;
  kind.wide = layer < model.bf16_start_layers || layer >= model.layers - model.bf16_end_layers;
  kind.untrained = layer < model.tuned.untrained;
  kind.stops_gradient = model.tuned.stops_gradient && layer == model.tuned.untrained;
  kind.prompted = model.tuned.prompts_from && layer >= *model.tuned.prompts_from;
  kind.encoder = layer < model.encoder_layers;
  kind.cross = !kind.encoder && model.encoder_layers > 0;
  return kind;
}

std::vector<LayerKind> layer_kinds(const job::Model& model) {
  std::vector<LayerKind> out;
  for (int layer = 0; layer < layer_count(model); ++layer) {
    const LayerKind kind = layer_kind(model, layer);
    if (std::find(out.begin(), out.end(), kind) == out.end()) {
      out.push_back(kind);
    }
  }
  return out;
}

int layer_count(const job::Model& model) { return model.layers + model.mtp_layers; }

OperatorGraph build_layer(const job::Model& model, LayerKind kind, const Shard& shard,
                          const Style& style) {
  const Style own = kind.wide ? without_low_precision(style) : style;
  Builder b(model, shard, own, kind);
  const bool attends =
      kind.mixer == LayerKind::Mixer::attention || kind.mixer == LayerKind::Mixer::window;
  const std::int64_t attention_bias = model.biases.attention_out && attends ? b.hidden : 0;
  const std::int64_t cross_bias = model.biases.attention_out ? b.hidden : 0;
  const std::int64_t mlp_bias = model.biases.mlp ? b.hidden : 0;
  const Module mlp_module = kind.mlp == LayerKind::Mlp::moe ? Module::moe : Module::mlp;

  Stream stream;
  if (kind.prediction) {
    stream.node = add_prediction_input(b);
  }
  stream.tensor = streams_of(b);
  if (model.residual_block > 0) {
    stream = add_attending_blocks(b, stream);
  } else if (model.parallel_block && kind.mlp != LayerKind::Mlp::none &&
             kind.mixer != LayerKind::Mixer::none) {
    stream = add_parallel(b, stream, attention_bias, mlp_bias, mlp_module);
  } else {
    if (kind.mixer != LayerKind::Mixer::none) {
      stream = add_block(b, "attention", Module::attention, attention_bias, stream,
                         [&](const Stream& in) { return add_mixer(b, in); });
    }
    if (kind.cross) {
      stream = add_block(b, "cross", Module::attention, cross_bias, stream,
                         [&](const Stream& in) { return add_cross(b, in.node, in.tensor); });
    }
    if (kind.mlp != LayerKind::Mlp::none) {
      const Stream before = stream;
      stream = add_block(b, "mlp", mlp_module, mlp_bias, stream,
                         [&](const Stream& in) { return add_mlp_or_experts(b, before, in); });
    }
  }
  if (model.layer_embedding && !kind.prediction) {
    stream = add_layer_embedding(b, stream);
  }
  if (kind.prediction) {
    stream = model.hyper_connections ? add_streams_end(b, stream) : stream;
    add_head(b, stream.node, stream.tensor);
  }
  OperatorGraph graph = b.finish();
  graph.kind = kind;
  return graph;
}

}  // namespace stepcast::model
