#include "builder.h"

namespace stepcast::model {

LayerKind layer_kind(const job::Model& model, int layer) {
  if (!model.moe || layer < model.moe->dense_layers) {
    return LayerKind::dense;
  }
  // Every n-th layer, the last of each group of n (as in the Switch and GLaM layouts).
  const int every = model.moe->every;
  return every <= 1 || (layer - model.moe->dense_layers) % every == every - 1 ? LayerKind::moe
                                                                              : LayerKind::dense;
}

int layer_count(const job::Model& model) { return model.layers; }

OperatorGraph build_layer(const job::Model& model, LayerKind kind, const Shard& shard,
                          const Style& style) {
  Builder b(model, shard, style);
  const std::int64_t norm_parameters = (model.norm == job::Norm::layer ? 2 : 1) * b.hidden;
  const std::int64_t attention_bias = model.biases.attention_out ? b.hidden : 0;
  const std::int64_t mlp_bias = model.biases.mlp ? b.hidden : 0;
  const Module mlp_module = kind.mlp == LayerKind::Mlp::moe ? Module::moe : Module::mlp;

  const Tensor layer_input = b.residual_stream();
  const Tensor attention_input = b.residual_stream();
  const Node attention_norm =
      add_norm(b, "attention_norm", Module::attention, b.local_tokens, b.hidden, norm_parameters,
               outside, layer_input, attention_input);
  const Node attention = model.mla ? add_mla(b, attention_norm, attention_input)
                                   : add_attention(b, attention_norm, attention_input);
  const auto add_block = [&](Node from, const Tensor& input) {
    return kind.mlp == LayerKind::Mlp::moe ? add_moe(b, from, input)
                                           : add_mlp(b, Module::mlp, model.ffn, from, input);
  };
  if (model.parallel_block) {  // both read one norm, and one residual add takes both
    const Node block = add_block(attention_norm, attention_input);
    const Node sum = add_residual(b, "attention_residual", Module::attention, attention_bias,
                                  attention, outside);
    add_residual(b, "mlp_residual", mlp_module, mlp_bias, block, sum);
    return b.finish();
  }
  const Node residual =
      add_residual(b, "attention_residual", Module::attention, attention_bias, attention, outside);
  const Tensor mlp_norm_input = b.residual_stream();
  const Tensor mlp_input = b.residual_stream();
  const Node mlp_norm = add_norm(b, "mlp_norm", mlp_module, b.local_tokens, b.hidden,
                                 norm_parameters, residual, mlp_norm_input, mlp_input);
  add_residual(b, "mlp_residual", mlp_module, mlp_bias, add_block(mlp_norm, mlp_input), residual);
  return b.finish();
}

}  // namespace stepcast::model
