// Several residual streams: hyper-connections (Zhu et al., arXiv 2409.19606), whose mixing weights
// are made doubly stochastic (manifold-constrained, DeepSeek-V4). Each block reads a weighted sum
// of the streams, and each stream becomes its share of the block's result plus a mixture of all.
// transformers 5.24.0, models/deepseek_v4/modeling_deepseek_v4.py:885, DeepseekV4HyperConnection
// and :1149, DeepseekV4DecoderLayer; nemo-automodel 0.7.0,
// components/models/deepseek_v4/model.py:305.
//
// LAW  n streams of width h: one product of n h x (n + 2) n in fp32 for the weights, n^2 h
//      multiplications for the mixture of each token, n (n + 2) (n h + 1) + 3 parameters for each
//      block. Each stream is as large as a residual stream, and so are its gradient, what a
//      checkpoint keeps and what a pipeline stage sends.
//
// The product has so few columns that its time is that of reading the streams, and the mixture's
// likewise: both count their FLOPs and are priced by the bytes that they move. torch multiplies n x
// n by n x h for each token with a batched product, whose kernels may be slower than that.
#include <algorithm>
#include <string>

#include "builder.h"

namespace stepcast::model {
namespace {

constexpr std::int64_t kWide = 4;  // bytes of fp32: weights and what they are made of

// Whether element-wise chains over the streams are one kernel each.
bool fuses(const Builder& b) { return b.style.compiled || b.style.fused_streams; }

// Bytes of an element of the streams of this rank's tokens, in `e` bytes each.
std::int64_t in_streams(const Builder& b, std::int64_t e) {
  return b.local_tokens * b.hidden * stream_count(b.model) * e;
}

// The norm over all streams of a token, without weights, of their fp32 copy. Backward, its gradient
// is added to the streams' others.
// A fused product with the weights (add_weights) reads the streams themselves and divides its
// result by their root mean square, which it sums on its way.
Stream add_streams_norm(Builder& b, const std::string& name, const Stream& streams) {
  if (b.style.fused_streams) {
    return streams;
  }
  const std::int64_t elements = in_streams(b, 1);
  const std::int64_t e = b.element;
  Operator op = named((name + "_streams_norm").c_str(), OpKind::norm, Module::streams);
  const Tensor normed = b.tensor(elements * kWide);
  if (b.style.compiled) {
    moves(op, elements * (e + kWide), elements * (kWide + 2 * e), 1, 2);
    keep(op, "input", streams.tensor);
  } else {
    // A copy, then a norm of fp32 numbers, less the product with a weight; the gradient's cast.
    move_eager_norm(op, elements, kWide, 0);
    op.forward_moved += Bytes(elements * (e + kWide));
    op.backward_moved += Bytes(elements * (kWide + e));
    op.backward_kernels -= 3 - 1;
    op.forward_singles = {2 * elements, elements * (e + kWide + 2 * kWide)};
    op.backward_singles = {2 * elements, elements * (kWide + e + 3 * kWide)};
    op.forward_temporary = Bytes(elements * kWide);
    op.backward_temporary = Bytes(4 * elements * kWide);
    op.largest_temporary = Bytes(elements * kWide);
    keep(op, "upcast", b.tensor(elements * kWide));
  }
  op.forward_output = Bytes(normed.bytes);
  return {b.add(std::move(op), {streams.node}), normed};
}

// The product that gives a token's weights, `columns` of them, and their scales and biases.
Stream add_weights(Builder& b, const std::string& name, std::int64_t columns, std::int64_t scales,
                   const Stream& normed) {
  const std::int64_t rows = b.local_tokens;
  const std::int64_t width = b.hidden * stream_count(b.model);
  Operator op = named((name + "_stream_weights").c_str(), OpKind::elementwise, Module::streams);
  op.parameters = columns * (width + 1) + scales;
  op.forward = op.input_grad = op.weight_grad = Flops(
      2.0 * static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(width));
  const std::int64_t made = rows * columns * kWide;
  const std::int64_t read = b.style.fused_streams ? b.element : kWide;
  const std::int64_t once = rows * width * read + columns * width * kWide + made;
  moves(op, once, 2 * once, 1, 2);
  op.forward_output = Bytes(made);
  keep(op, "input", normed.tensor);
  return {b.add(std::move(op), {normed.node}), b.tensor(made)};
}

// Sigmoids of the weights that read and write, and the softmax and normalisations of those that mix
// (modeling_deepseek_v4.py:980 to :991).
Stream add_normalisations(Builder& b, const std::string& name, const Stream& raw) {
  const std::int64_t n = stream_count(b.model);
  const std::int64_t mixing = b.local_tokens * n * n * kWide;
  Operator op = named((name + "_stream_sinkhorn").c_str(), OpKind::softmax, Module::streams);
  op.forward_output = Bytes(raw.tensor.bytes);
  keep(op, "input", raw.tensor);
  if (fuses(b)) {
    moves(op, 2 * raw.tensor.bytes, 3 * raw.tensor.bytes, 1, 1);
    return {b.add(std::move(op), {raw.node}), b.tensor(raw.tensor.bytes)};
  }
  // A normalisation is a sum over rows or columns, a number added and a division, which keeps both
  // of what it divides. Backward: the gradient over the sum; its product, twice divided and
  // negated, summed; that added to the other.
  const int iterations = b.model.hyper_connections->sinkhorn;
  const int normalisations = std::max(2 * iterations - 1, 1);
  constexpr int kForward = 3, kBackward = 7;
  constexpr int kSigmoids = 12,
                kSigmoidsBackward = 14;  // products with scales, biases, activations
  moves(op, normalisations * 3 * mixing + kSigmoids / 3 * 2 * raw.tensor.bytes,
        normalisations * 12 * mixing + kSigmoidsBackward / 3 * 3 * raw.tensor.bytes,
        normalisations * kForward + kSigmoids, normalisations * kBackward + kSigmoidsBackward);
  keep(op, "divided", b.tensor(normalisations * (mixing + mixing / n)));
  keep(op, "activated",
       b.tensor(mixing + 3 * mixing / n));  // softmax, two sigmoids, one of them raised
  return {b.add(std::move(op), {raw.node}), b.tensor(raw.tensor.bytes)};
}

// The weighted sum of the streams that a block reads.
Stream add_collapse(Builder& b, const std::string& name, const Stream& streams,
                    const Stream& weights, const Tensor& output) {
  const std::int64_t e = b.element;
  const std::int64_t all = in_streams(b, 1);
  const std::int64_t one = b.local_tokens * b.hidden;
  Operator op = named((name + "_streams_read").c_str(), OpKind::elementwise, Module::streams);
  if (fuses(b)) {
    moves(op, (all + one) * e, (2 * all + one) * e, 1, 1);
  } else {
    // Forward: products in fp32, their sum over streams, its cast. Backward: the cast; the product
    // with the weights and its cast; the product with the streams and its sum; the sum of
    // gradients.
    moves(op, all * (e + kWide) + all * kWide + one * kWide + one * (kWide + e),
          one * (e + kWide) + all * (kWide + kWide + e) + all * (e + kWide + kWide) + 3 * all * e,
          3, 6);
    op.forward_singles = {all, all * (e + kWide)};
    op.backward_singles = {2 * all, all * (2 * kWide + e)};
    op.forward_temporary = Bytes(all * kWide);
    op.backward_temporary = Bytes(2 * all * kWide);
    op.largest_temporary = Bytes(all * kWide);
  }
  op.forward_output = Bytes(output.bytes);
  keep(op, "streams", streams.tensor);
  return {b.add(std::move(op), {streams.node, weights.node}), output};
}

}  // namespace

Tensor streams_of(Builder& b) { return b.tensor(in_streams(b, b.element)); }

StreamsRead add_streams_read(Builder& b, const std::string& name, const Stream& streams) {
  const std::int64_t n = stream_count(b.model);
  constexpr std::int64_t kScales = 3;  // of the weights that read, write and mix
  const Stream normed = add_streams_norm(b, name, streams);
  const Stream raw = add_weights(b, name, n * (n + 2), kScales, normed);
  const Stream weights = add_normalisations(b, name, raw);
  return {add_collapse(b, name, streams, weights, b.residual_stream()), weights};
}

Stream add_streams_write(Builder& b, const std::string& name, Node block, const Stream& weights,
                         const Stream& streams) {
  const std::int64_t n = stream_count(b.model);
  const std::int64_t e = b.element;
  const std::int64_t all = in_streams(b, e);
  const std::int64_t one = b.local_tokens * b.hidden * e;
  Operator op = named((name + "_residual").c_str(), OpKind::residual, Module::streams);
  op.forward = Flops(2.0 * static_cast<double>(b.local_tokens) * static_cast<double>(n * n) *
                     static_cast<double>(b.hidden));
  op.input_grad = Flops(2 * op.forward.count());
  if (fuses(b)) {
    moves(op, 2 * all + one, 3 * all + 2 * one, 1, 2);
  } else {
    // Forward: the mixture, the result times each stream's weight, their sum; weights are cast.
    // Backward: products of the gradient with weights and with the result, and their sums; both
    // gradients of the mixture; casts of the weights' gradients; the sum of the streams' gradients.
    moves(op, 2 * all + (one + all) + 3 * all,
          2 * (2 * all) + (2 * all + one) + one + 2 * all + 2 * all + 3 * all, 3 + 2, 6 + 2 + 1);
    op.forward_singles = {all / e, one + all};
    op.backward_singles = {2 * all / e, 4 * all + one};
    op.forward_temporary = Bytes(2 * all);
    op.backward_temporary = Bytes(2 * all);
    op.largest_temporary = Bytes(all);
  }
  op.forward_output = Bytes(all);
  keep(op, "streams", streams.tensor);
  keep(op, "result", b.tensor(one));
  keep(op, "weights", fuses(b) ? weights.tensor : b.tensor(b.local_tokens * n * (n + 1) * e));
  return {b.add(std::move(op), {block, streams.node, weights.node}), streams_of(b)};
}

// The embedding's copies (modeling_deepseek_v4.py:1363); backward, their gradients are summed.
Node add_streams_start(Builder& b, Node from) {
  const std::int64_t all = in_streams(b, b.element);
  const std::int64_t one = b.local_tokens * b.hidden * b.element;
  Operator op = named("streams_start", OpKind::elementwise, Module::streams);
  moves(op, one + all, all + one, 1, 1);
  op.forward_output = Bytes(all);
  return b.add(std::move(op), {from});
}

// The weighted sum of the streams ahead of the last norm (DeepseekV4HyperHead, :999).
Stream add_streams_end(Builder& b, const Stream& streams) {
  const std::int64_t n = stream_count(b.model);
  const Stream normed = add_streams_norm(b, "head", streams);
  const Stream weights = add_weights(b, "head", n, 1, normed);
  return add_collapse(b, "head", streams, weights, b.residual_stream());
}

}  // namespace stepcast::model
