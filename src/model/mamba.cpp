// A Mamba-2 block by state-space duality (Dao and Gu, arXiv 2405.21060, section 6): the sequence is
// cut into chunks of Q tokens; products inside a chunk are quadratic in Q, and a state of N x P for
// each head is passed on from one chunk to the next.
//
// LAW  one token costs 2 (G Q N + H Q P + 2 H N P) FLOPs between its two projections: scores C B^T
//      of a chunk, their product with X, states B^T X, and the contribution of earlier states, C S.
//
// Over context ranks (megatron-core 0.16.0, ssm/mamba_context_parallel.py): between the projections
// each has whole sequences of its part of the heads. Groups fewer than ranks are copied.
#include <algorithm>

#include "builder.h"

namespace stepcast::model {
Node add_mamba(Builder& b, Node from, const Tensor& input) {
  const job::Mamba& m = *b.model.mamba;
  const std::int64_t e = b.element;
  const std::int64_t heads = m.heads / b.shard.tensor;
  const std::int64_t groups = m.groups / b.shard.tensor;
  const std::int64_t inner = heads * m.head_dim;
  const std::int64_t channels = inner + 2 * groups * m.state;  // of the convolution: x, B, C
  const std::int64_t width = inner + channels + heads;         // z, x, B, C, dt

  const std::int64_t ranks = b.shard.context;
  const std::int64_t tokens = b.tokens * ranks;  // whole sequences
  const std::int64_t own_heads = heads / ranks;
  const std::int64_t own_groups = std::max<std::int64_t>(1, groups / ranks);
  const std::int64_t own_inner = own_heads * m.head_dim;
  const std::int64_t convolved = own_inner + 2 * own_groups * m.state;
  const std::int64_t chunks = ceil_div(tokens, m.chunk);
  const Tensor projected = b.tensor(tokens * (own_inner + convolved + own_heads) * e);

  Operator project = linear(
      {"mamba_in", Module::attention, TensorRole::column, {b.tokens, width, b.hidden, 1}, 0, e, 1});
  keep(project, "input", input);
  keep(project, "output", projected);
  Node node = b.add(std::move(project), {from});

  // Causal convolution along the sequence with its bias and SiLU. The fused kernel of mamba_ssm
  // (split, convolution, scan) keeps the projection's output and repeats the convolution in the
  // backward pass.
  Operator conv = named("mamba_conv", OpKind::elementwise, Module::core_attention);
  const std::int64_t conv_bytes = tokens * convolved * e;
  conv.parameters = channels * (m.conv + 1);
  if (ranks > 1) {
    const std::int64_t z = b.tokens * inner * e;
    const std::int64_t state = tokens * own_groups * m.state * e;
    conv.traded_before = {z, z, state, state, b.tokens * heads * e};
  }
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

  node = add_product(b, "mamba_scores", {m.chunk, m.chunk, m.state, chunks * own_groups}, node);
  node = add_product(b, "mamba_states", {m.state, m.head_dim, m.chunk, chunks * own_heads}, node);
  Operator carry = named("mamba_carry", OpKind::elementwise, Module::core_attention);
  const std::int64_t states = 4 * chunks * own_heads * m.state * m.head_dim;  // fp32
  moves(carry, 2 * states, 3 * states, 1, 1);
  carry.forward_output = Bytes(states);
  node = b.add(std::move(carry), {node});
  node = add_product(b, "mamba_chunk", {m.chunk, m.head_dim, m.chunk, chunks * own_heads}, node);
  node = add_product(b, "mamba_read", {m.chunk, m.head_dim, m.state, chunks * own_heads}, node);
  if (ranks > 1) {
    b.graph.operators.back().traded_after = {b.tokens * inner * e};
  }

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
