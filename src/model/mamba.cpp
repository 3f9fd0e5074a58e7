// A Mamba-2 block by state-space duality (Dao and Gu, arXiv 2405.21060, section 6): the sequence is
// cut into chunks of Q tokens; products inside a chunk are quadratic in Q, and a state of N x P for
// each head is passed on from one chunk to the next.
//
// LAW  one token costs 2 (G Q N + H Q P + 2 H N P) FLOPs between its two projections: scores C B^T
//      of a chunk, their product with X, states B^T X, and the contribution of earlier states, C S.
#include "builder.h"

namespace stepcast::model {
Node add_mamba(Builder& b, Node from, const Tensor& input) {
  const job::Mamba& m = *b.model.mamba;
  const std::int64_t e = b.element;
  const std::int64_t heads = m.heads / b.shard.tensor;
  const std::int64_t groups = m.groups / b.shard.tensor;
  const std::int64_t inner = heads * m.head_dim;
  const std::int64_t convolved = inner + 2 * groups * m.state;
  const std::int64_t width = inner + convolved + heads;  // z, x B C, dt
  const std::int64_t chunks = ceil_div(b.tokens, m.chunk);
  const Tensor projected = b.tensor(b.tokens * width * e);

  Operator project = linear(
      {"mamba_in", Module::attention, TensorRole::column, {b.tokens, width, b.hidden, 1}, 0, e, 1});
  keep(project, "input", input);
  keep(project, "output", projected);
  Node node = b.add(std::move(project), {from});

  // Causal convolution along the sequence with its bias and SiLU. The fused kernel of mamba_ssm
  // (split, convolution, scan) keeps the projection's output and repeats the convolution in the
  // backward pass.
  Operator conv = named("mamba_conv", OpKind::elementwise, Module::core_attention);
  const std::int64_t conv_bytes = b.tokens * convolved * e;
  conv.parameters = convolved * (m.conv + 1);
  moves(conv, 2 * conv_bytes, 5 * conv_bytes, 1, 2);
  conv.forward_output = Bytes(conv_bytes);
  keep(conv, "input", projected);
  node = b.add(std::move(conv), {node});

  // softplus of dt with its bias, and sums of the decays in each chunk, in fp32.
  Operator decay = named("mamba_decay", OpKind::elementwise, Module::core_attention);
  decay.parameters = 3 * heads;  // A, D, the bias of dt
  const std::int64_t decays = 4 * b.tokens * heads;
  moves(decay, b.tokens * heads * e + 2 * decays, b.tokens * heads * e + 3 * decays, 1, 1);
  decay.forward_output = Bytes(2 * decays);
  node = b.add(std::move(decay), {node});

  node = add_product(b, "mamba_scores", {m.chunk, m.chunk, m.state, chunks * groups}, node);
  node = add_product(b, "mamba_states", {m.state, m.head_dim, m.chunk, chunks * heads}, node);
  Operator carry = named("mamba_carry", OpKind::elementwise, Module::core_attention);
  const std::int64_t states = 4 * chunks * heads * m.state * m.head_dim;  // fp32
  moves(carry, 2 * states, 3 * states, 1, 1);
  carry.forward_output = Bytes(states);
  node = b.add(std::move(carry), {node});
  node = add_product(b, "mamba_chunk", {m.chunk, m.head_dim, m.chunk, chunks * heads}, node);
  node = add_product(b, "mamba_read", {m.chunk, m.head_dim, m.state, chunks * heads}, node);

  // The norm of y SiLU(z), in groups.
  const std::int64_t bytes = b.tokens * inner * e;
  const Tensor scanned = b.tensor(bytes);
  const Tensor gated = b.tensor(bytes);
  Operator norm = named("mamba_norm", OpKind::norm, Module::attention);
  norm.parameters = inner;
  moves(norm, 3 * bytes, 5 * bytes, 1, 2);
  norm.forward_output = Bytes(bytes);
  keep(norm, "input", scanned);
  keep(norm, "gate", projected);
  node = b.add(std::move(norm), {node});
  return add_linear(
      b, {"mamba_out", Module::attention, TensorRole::row, {b.tokens, b.hidden, inner, 1}, 0, e, 1},
      node, gated);
}

}  // namespace stepcast::model
