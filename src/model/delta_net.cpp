// Linear attention by the gated delta rule (Yang et al., arXiv 2412.06464), in chunks of C tokens:
// inside a chunk the rule is a triangular system (the WY form), and a state of K x V for each head
// is passed on from chunk to chunk. With a decay for each key channel it is Kimi Delta Attention
// (arXiv 2510.26692).
//
// LAW  one token and value head cost 2 C (3 K + 2 V) + 6 K V FLOPs between the projections: K K^T,
//      Q K^T, the solved keys and values, scores times values; the state is read twice and written
//      once. Solving the system (C^2 a token, no tensor cores) is left out.
//
// Over context ranks (megatron-core 0.18.0, ssm/gated_delta_net.py) each has whole sequences of its
// part of the heads between the projections, and norms them before they are traded back.
#include "builder.h"

namespace stepcast::model {
namespace {

// The low-rank products of Kimi Delta Attention, to `rank` and then to `width`.
Node add_low_rank(Builder& b, const char* down, const char* up, std::int64_t rank,
                  std::int64_t width, Node from, const Tensor& input) {
  const std::int64_t e = b.element;
  const Tensor latent = b.tensor(b.local_tokens * rank * e);
  const Node node = add_linear(
      b, {down, Module::attention, TensorRole::none, {b.local_tokens, rank, b.hidden, 1}, 0, e, 1},
      from, input);
  return add_linear(
      b, {up, Module::attention, TensorRole::column, {b.tokens, width, rank, 1}, 0, e, 1}, node,
      latent);
}

// The rule itself, chunk by chunk, for the heads of a tensor rank.
Node add_rule(Builder& b, std::int64_t heads, Node node) {
  const job::LinearAttention& l = *b.model.linear;
  const std::int64_t chunk = l.chunk;
  const std::int64_t ranks = b.shard.context;
  const std::int64_t chunks = ceil_div(b.tokens * ranks, chunk) * (heads / ranks);
  node = add_product(b, "linear_scores", {chunk, chunk, l.key_dim, 2 * chunks}, node);
  node = add_product(b, "linear_solve", {chunk, l.key_dim + l.value_dim, chunk, chunks}, node);
  node = add_product(b, "linear_read", {chunk, l.value_dim, l.key_dim, 2 * chunks}, node);
  node = add_product(b, "linear_chunk", {chunk, l.value_dim, chunk, chunks}, node);
  node = add_product(b, "linear_update", {l.key_dim, l.value_dim, chunk, chunks}, node);
  // The chunks' triangular systems are kept; the keys and values that they give are computed again.
  keep(b.graph.operators.back(), "system", b.tensor(b.tokens * heads * chunk * b.element));
  return node;
}

}  // namespace

Node add_delta_net(Builder& b, Node from, const Tensor& input) {
  const job::LinearAttention& l = *b.model.linear;
  const std::int64_t e = b.element;
  const std::int64_t heads = l.value_heads / b.shard.tensor;
  const std::int64_t keys = static_cast<std::int64_t>(l.key_heads / b.shard.tensor) * l.key_dim;
  const std::int64_t values = heads * l.value_dim;
  const std::int64_t convolved = 2 * keys + values;
  // Queries, keys and values; the output's gate; for each head the update rate and the decay.
  const std::int64_t width = convolved + (l.elementwise_decay ? heads : values + 2 * heads);
  const Tensor projected = b.tensor(b.tokens * width * e);

  Operator project = linear({"linear_in",
                             Module::attention,
                             TensorRole::column,
                             {b.tokens, width, b.hidden, 1},
                             0,
                             e,
                             l.elementwise_decay ? 4 : 2});
  keep(project, "input", input);
  keep(project, "output", projected);
  Node node = b.add(std::move(project), {from});
  if (l.elementwise_decay) {
    const Node decays =
        add_low_rank(b, "decay_down", "decay_up", l.value_dim, heads * l.key_dim, from, input);
    const Node gate =
        l.whole_gate ? add_linear(b,
                                  {"gate",
                                   Module::attention,
                                   TensorRole::column,
                                   {b.tokens, values, b.hidden, 1},
                                   0,
                                   e,
                                   1},
                                  from, input)
                     : add_low_rank(b, "gate_down", "gate_up", l.value_dim, values, from, input);
    Operator join = named("linear_decay", OpKind::elementwise, Module::attention);
    // -exp(A) softplus(f + dt), in fp32 for each key channel.
    const std::int64_t elements = b.tokens * heads * l.key_dim;
    join.parameters = heads + heads * l.key_dim;
    moves(join, elements * (e + 4), elements * (2 * e + 4), 1, 2);
    join.forward_output = Bytes(4 * elements);
    keep(join, "input", b.tensor(elements * e));
    node = b.add(std::move(join), {node, decays, gate});
  } else {
    Operator decay = named("linear_decay", OpKind::elementwise, Module::attention);
    const std::int64_t elements = b.tokens * heads;
    decay.parameters = 2 * heads;  // A and the bias of dt
    if (b.shard.context > 1) {
      decay.traded_before = {projected.bytes};
    }
    moves(decay, 2 * elements * (e + 4), 2 * elements * (2 * e + 4), 2, 2);
    decay.forward_output = Bytes(8 * elements);
    node = b.add(std::move(decay), {node});
  }

  // A causal convolution with SiLU, then the norm of each head's query and key.
  const std::int64_t conv_bytes = b.tokens * convolved * e;
  const Tensor mixed = b.tensor(conv_bytes);
  Operator conv = named("linear_conv", OpKind::elementwise, Module::attention);
  conv.parameters = convolved * l.conv;
  moves(conv, 2 * conv_bytes, 4 * conv_bytes, l.elementwise_decay ? 3 : 1,
        l.elementwise_decay ? 6 : 2);
  conv.forward_output = Bytes(conv_bytes);
  keep(conv, "input", projected);
  keep(conv, "output", mixed);
  node = b.add(std::move(conv), {node});
  Operator norm = named("linear_qk_norm", OpKind::norm, Module::attention);
  moves(norm, 4 * b.tokens * keys * e, 6 * b.tokens * keys * e, 2, 2);
  norm.forward_output = Bytes(2 * b.tokens * keys * e);
  node = b.add(std::move(norm), {node});

  node = add_rule(b, heads, node);

  // The norm of each head's output, times the SiLU of the gate.
  const std::int64_t bytes = b.tokens * values * e;
  const Tensor output = b.tensor(bytes);
  const Tensor gated = b.tensor(bytes);
  Operator gate = named("linear_norm", OpKind::norm, Module::attention);
  gate.parameters = l.value_dim;
  moves(gate, 3 * bytes, 5 * bytes, 1, 2);
  gate.forward_output = Bytes(bytes);
  if (b.shard.context > 1) {
    gate.traded_after = {bytes};
  }
  keep(gate, "input", output);
  if (l.elementwise_decay) {
    keep(gate, "gate", b.tensor(bytes));
  } else {
    keep(gate, "gate", projected);
  }
  node = b.add(std::move(gate), {node});
  return add_linear(
      b,
      {"linear_out", Module::attention, TensorRole::row, {b.tokens, b.hidden, values, 1}, 0, e, 1},
      node, gated);
}

}  // namespace stepcast::model
