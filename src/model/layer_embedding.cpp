// An embedding of each token for each layer (Gemma 4; transformers 5.24.0, models/gemma4/
// modeling_gemma4.py:1705, get_per_layer_inputs, :1751, project_per_layer_inputs, and :1410): one
// table for all L layers of width w, whose rows are added to a product of the word's embedding,
// normed in parts of w. Behind its MLP a layer projects its stream to w, activates it, multiplies
// with its part, projects that back, norms it and adds it.
//
// LAW  2 h L w FLOPs a token ahead of the layers and 4 h w in each; V L w + h L w + w parameters
// ahead of
//      them, 2 h w + h in each.
#include "builder.h"

namespace stepcast::model {

Node add_layer_tables(Builder& b, Node from) {
  const job::LayerEmbedding& x = *b.model.layer_embedding;
  const std::int64_t e = b.element;
  const std::int64_t columns = b.model.layers * x.width;
  const std::int64_t rows = x.vocab > 0 ? x.vocab : b.model.vocab;
  const std::int64_t bytes = b.tokens * columns * e;
  Operator table = named("layer_embedding", OpKind::embedding, Module::embedding);
  table.parameters = rows * columns;
  // The rows, and their product with a number; the gradient of the whole table is set to zero
  // first.
  moves(table, (2 + 2) * bytes, (2 + 2) * bytes + rows * columns * e, 2, 3);
  table.forward_output = Bytes(bytes);
  table.backward_temporary = Bytes(rows * columns * e);
  const Node looked_up = b.add(std::move(table), {from});

  const Tensor words = b.residual_stream();
  const Node projected = add_linear(b,
                                    {"layer_projection",
                                     Module::embedding,
                                     TensorRole::none,
                                     {b.tokens, columns, b.hidden, 1},
                                     0,
                                     e,
                                     1},
                                    looked_up, words);
  const Node normed =
      add_norm(b, "layer_projection_norm", Module::embedding, b.tokens * b.model.layers, x.width,
               x.width, projected, b.tensor(bytes), b.tensor(bytes));
  Operator sum = named("layer_inputs", OpKind::elementwise, Module::embedding);  // sum and product
  moves(sum, b.style.compiled ? 3 * bytes : 5 * bytes, b.style.compiled ? 3 * bytes : 4 * bytes,
        b.style.compiled ? 1 : 2, b.style.compiled ? 1 : 2);
  sum.forward_output = Bytes(bytes);
  keep(sum, "output", b.tensor(bytes));  // that layers read
  return b.add(std::move(sum), {normed});
}

Stream add_layer_embedding(Builder& b, const Stream& stream) {
  const job::LayerEmbedding& x = *b.model.layer_embedding;
  const std::int64_t e = b.element;
  const std::int64_t bytes = b.local_tokens * x.width * e;
  const Tensor gate = b.tensor(bytes);
  const Tensor product = b.tensor(bytes);
  Node node = add_linear(b,
                         {"layer_gate",
                          Module::mlp,
                          TensorRole::none,
                          {b.local_tokens, x.width, b.hidden, 1},
                          0,
                          e,
                          1},
                         stream.node, stream.tensor);
  Operator act = named("layer_act", OpKind::activation, Module::mlp);  // times the layer's part
  moves(act, b.style.compiled ? 3 * bytes : 5 * bytes, b.style.compiled ? 5 * bytes : 9 * bytes,
        b.style.compiled ? 1 : 2, b.style.compiled ? 1 : 3);
  act.forward_output = Bytes(bytes);
  keep(act, "input", gate);
  if (!b.style.compiled) {
    keep(act, "activated", b.tensor(bytes));
  }
  node = b.add(std::move(act), {node});
  node = add_linear(
      b,
      {"layer_out", Module::mlp, TensorRole::none, {b.local_tokens, b.hidden, x.width, 1}, 0, e, 1},
      node, product);
  node = add_norm(b, "layer_out_norm", Module::mlp, b.local_tokens, b.hidden,
                  norm_width(b.model) * b.hidden, node, b.residual_stream(), b.residual_stream());
  return {add_residual(b, "layer_residual", Module::mlp, 0, node, stream.node),
          b.residual_stream()};
}

}  // namespace stepcast::model
