// Attention residuals (Kimi K3; nemo-automodel 0.7.0, components/models/kimi_k3/model.py:1415,
// _forward_attn_residual, and situ.py:632, _attn_res_core): layers form blocks. The stream with
// which a block begins is kept, and the block sums what its own layers add. What attention or an
// MLP reads is a mixture of the streams kept so far and of that sum, weighted for each token by a
// softmax over the product of their norms with one vector.
//
// LAW  with n streams, 2 n h multiplications a token, and 2 h parameters: a norm and the vector.
// Eager
//      kernels keep two copies of all streams in fp32; fused ones keep what they read, which the
//      block's first layer has stacked.
#include <algorithm>

#include "builder.h"

namespace stepcast::model {

Stream add_residual_mix(Builder& b, const std::string& name, int blocks, const Stream& stream) {
  constexpr std::int64_t kWide = 4;  // bytes of fp32
  const std::int64_t e = b.element;
  const std::int64_t one = b.local_tokens * b.hidden;
  const std::int64_t all = one * (blocks + 1);
  Operator op = named((name + "_residual_mix").c_str(), OpKind::elementwise, Module::streams);
  op.parameters = 2 * b.hidden;
  if (b.style.compiled) {
    moves(op, (all + one) * e, (3 * all + one) * e, 1, 2);
    keep(op, "stream", stream.tensor);
  } else {
    // Forward: streams are stacked and cast; squares and their mean; the norm; products with the
    // vector and their sum; products with the probabilities, their sum, the cast.
    // Backward: both gradients of the mixture; those of the scores; of the norm, as of one in
    // Python; sums of the streams' gradients; casts; the sum with the gradients that came before.
    const std::int64_t forward =
        2 * e + (e + kWide) + 2 * kWide + kWide + 2 * kWide + 2 * kWide + kWide + 2 * kWide + kWide;
    const std::int64_t backward = (2 + 1 + 1) * kWide + (1 + 2 + 1) * kWide + (6 + 1 + 7) * kWide +
                                  3 * 3 * kWide + (kWide + e) + 3 * e;
    moves(op, all * forward + one * (kWide + e), all * backward + one * (e + kWide), 16, 28);
    op.forward_singles = {3 * all, all * (e + kWide + 4 * kWide)};
    op.backward_singles = {3 * all, all * 6 * kWide};
    op.forward_temporary = Bytes(2 * all * kWide);
    op.backward_temporary = Bytes(4 * all * kWide);
    op.largest_temporary = Bytes(all * kWide);
    keep(op, "upcast", b.tensor(all * kWide));
    keep(op, "normed", b.tensor(all * kWide));
  }
  const Tensor output = b.residual_stream();
  op.forward_output = Bytes(output.bytes);
  return {b.add(std::move(op), {stream.node}), output};
}

// The streams kept so far and this one, in a tensor of their own; backward, their gradients are
// cut.
Node add_block_start(Builder& b, Node from) {
  const std::int64_t all = b.local_tokens * b.hidden * b.element * (b.kind.blocks + 1);
  Operator op = named("block_start", OpKind::elementwise, Module::streams);
  moves(op, 2 * all, 2 * all, 1, 1);
  op.forward_output = Bytes(all);
  op.parameters = b.kind.blocks == 0 ? 2 * b.hidden : 0;  // which nothing ahead of attention reads
  keep(op, "streams", b.tensor(all));
  return b.add(std::move(op), {from});
}

}  // namespace stepcast::model
