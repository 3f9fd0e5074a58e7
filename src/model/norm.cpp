// Norms and the (bias, dropout,) residual adds between them, which memory bandwidth bounds.
#include "builder.h"

namespace stepcast::model {

bool eager_norm(const Builder& b, std::string_view name) {
  const bool fused = b.style.fused_norm && !(b.style.eager_qk_norm && name == kQkNorm);
  return !fused && !b.style.compiled && b.model.norm == job::Norm::rms;
}

// RMS norm written in Python with an fp32 upcast (HuggingFace's LlamaRMSNorm): cast, square, mean,
// rsqrt, scale, cast, weight; an fp32 input needs no casts.
//
// The backward pass by autograd: the weight's gradient (product, sum over rows) and the product
// with the weight; cast; for the scaling, the gradients of the input and of the factor, summed
// over the row; the gradient of the mean, expanded over the row; three kernels for the square
// (pow, 2 x, product); the sum of both gradients of the upcast; cast.
//
// Elements one by one: the upcast, and the products with a factor of each row and with the weight,
// which are broadcast. Backward: the product with the weight, the upcast, that with the row's
// factor, and both kernels that read the mean's gradient, expanded over the row.
void move_eager_norm(Operator& op, std::int64_t elements, std::int64_t e, std::int64_t w) {
  const bool casts = e < 4;
  const std::int64_t cast = casts ? 4 + e : 0;
  const std::int64_t scaling = 8 + 12 + 4;
  const std::int64_t square = 4 + (8 + 8 + 12);
  moves(op, elements * (cast + 8 + 4 + 8 + cast + 2 * w),
        elements * ((3 * w + w + 2 * w) + cast + scaling + square + 12 + cast), casts ? 7 : 5,
        casts ? 16 : 14);
  op.forward_singles = {elements * (casts ? 3 : 2), elements * (cast + 8 + 2 * w)};
  op.backward_singles = {elements * (casts ? 5 : 4), elements * (2 * w + cast + 8 + 4 + 12)};
}

void describe_norm(Builder& b, Operator& op, std::int64_t elements, const Tensor& input) {
  const std::int64_t e = b.element;
  if (!eager_norm(b, op.name)) {
    // Statistics (4 or 8 B a row) are left out, as in Korthikanti et al. (arXiv 2205.05198,
    // section 4.1).
    moves(op, 2 * elements * e, 3 * elements * e, 1, 2);
    keep(op, "input", input);
    if (b.style.norm_in_place && b.model.norm == job::Norm::rms) {
      op.gradient = Operator::Gradient::handed_on;
    }
    return;
  }
  // It keeps the upcast and the normed tensor before the weight, not its input. torch.nn.RMSNorm
  // before 2.9 scales by the weight before it casts back (aten/src/ATen/native/layer_norm.cpp:
  // rms_norm).
  const std::int64_t w = b.style.wide_norm ? 4 : e;
  move_eager_norm(op, elements, e, w);
  // At most five fp32 tensors are alive at once: the gradient of the scaling, that of the mean
  // square expanded over the row, and three of the square. All are freed before the input's own
  // gradient is cast.
  op.backward_temporary = Bytes((5 * 4 - e) * elements);
  op.forward_temporary = Bytes(4 * elements);
  if (e < 4) {
    keep(op, "upcast", b.tensor(4 * elements));
  } else {
    keep(op, "input", input);  // an fp32 input needs no cast
  }
  keep(op, "normed", b.tensor(elements * w));
}

// Without the weight's product forward, and backward its gradient (product, sum) and that
// product's. transformers 5.24.0, models/gemma4/modeling_gemma4.py:196 (with_scale=False);
// Megatron-Bridge 0.6.2, models/gemma/modeling_gemma4.py:87 and :1671.
void describe_plain_norm(Builder& b, Operator& op, std::int64_t elements, const Tensor& input) {
  const std::int64_t e = b.element;
  if (b.style.compiled) {
    moves(op, 2 * elements * e, 3 * elements * e, 1, 2);
    keep(op, "input", input);
    return;
  }
  move_eager_norm(op, elements, e, 0);
  op.forward_kernels -= 1;
  op.backward_kernels -= 3;
  op.forward_singles.elements -= elements;
  op.backward_singles.elements -= elements;
  op.backward_temporary = Bytes((5 * 4 - e) * elements);
  op.forward_temporary = Bytes(4 * elements);
  if (e < 4) {
    keep(op, "upcast", b.tensor(4 * elements));
  } else {
    keep(op, "input", input);
  }
}

Node add_norm(Builder& b, const char* name, Module module, std::int64_t rows, std::int64_t width,
              std::int64_t parameters, Node from, const Tensor& input, const Tensor& output) {
  Operator op = named(name, OpKind::norm, module);
  op.parameters = parameters;
  op.bias = norm_width(b.model) == 2 ? parameters / 2 : 0;
  op.forward_output = Bytes(output.bytes);
  describe_norm(b, op, rows * width, input);
  return b.add(std::move(op), {from});
}

Node add_residual(Builder& b, const char* name, Module module, std::int64_t bias, Node branch,
                  Node skip) {
  Operator op = named(name, OpKind::residual, module);
  const std::int64_t elements = b.local_tokens * b.hidden;
  const std::int64_t e = b.element;
  const bool dropout = b.model.dropout > 0;
  const bool biased = bias > 0;
  // The add reads both branches and writes the sum; in the backward pass autograd adds the
  // gradients of the two branches.
  std::int64_t forward = 3 * elements * e;
  std::int64_t backward = 3 * elements * e;
  int forward_kernels = 1;
  int backward_kernels = 1;
  const bool fused = b.style.fused_bias_dropout_add || b.style.compiled;
  if (dropout) {
    const Tensor mask = b.tensor(elements);
    keep(op, "dropout_mask", mask);
    forward += mask.bytes;
    backward += mask.bytes + 2 * elements * e;
    ++backward_kernels;
    if (!fused) {
      forward += 2 * elements * e;
      ++forward_kernels;
    }
  }
  if (biased) {
    backward += elements * e;  // sum over rows
    ++backward_kernels;
    if (!fused && !b.style.fused_linear_bias) {
      forward += 2 * elements * e;
      ++forward_kernels;
    }
  }
  moves(op, forward, backward, forward_kernels, backward_kernels);
  op.forward_output = Bytes(elements * e);
  op.gradient = Operator::Gradient::handed_on;  // for the branch only without dropout
  return b.add(std::move(op), {branch, skip});
}

}  // namespace stepcast::model
