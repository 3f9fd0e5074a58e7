// The dense MLP, gated (SwiGLU) or not (GeLU).
#include "builder.h"

namespace stepcast::model {
namespace {

// Of kernels over all elements that each read so many tensors and write one.
std::int64_t bytes_of_kernels(std::int64_t one, std::initializer_list<int> reads) {
  std::int64_t bytes = 0;
  for (const int n : reads) {
    bytes += (n + 1) * one;
  }
  return bytes;
}

bool composes(const Builder& b, job::Activation kind) {
  return !b.model.gated_mlp && b.model.activation == kind && b.style.composed_gelu &&
         !b.style.fused_bias_activation && !b.style.compiled;
}

// transformers 5.23.0, activations.py:211 (ReLUSquaredActivation): both kernels keep what the first
// makes. Back: the gradient of the square in two kernels, that of ReLU.
void compose_squared_relu(Builder& b, std::int64_t one, Operator& op) {
  op.saved.clear();
  keep(op, kSquared, b.tensor(one));
  moves(op, bytes_of_kernels(one, {1, 1}), bytes_of_kernels(one, {1, 2, 2}), 2, 3);
  op.backward_temporary = Bytes(2 * one);
}

}  // namespace

bool composes_gelu(const Builder& b) { return composes(b, job::Activation::gelu_new); }

Operator activation(Builder& b, const char* name, Module module, std::int64_t rows,
                    std::int64_t width, std::int64_t bias, const Tensor& input,
                    const Tensor& output) {
  const bool gated = b.model.gated_mlp;
  // Liger-Kernel leaves experts alone that have no kernels of their own (expert_rows.h).
  const bool in_place = b.style.gate_in_place && module != Module::moe;
  const bool fused =
      (b.style.fused_bias_activation && (in_place || !b.style.gate_in_place)) || b.style.compiled;
  const std::int64_t one = rows * width * b.element;
  const std::int64_t in = gated ? 2 * one : one;
  Operator op = named(name, OpKind::activation, module);
  op.forward_output = Bytes(output.bytes);
  // Megatron-LM, core 0.16 fusions/fused_bias_swiglu.py: SwiGLUFunction and its kin cast the input
  // to float8_e4m3fn and back. GeLU's fusion has no such option.
  const bool narrow = gated && fused && b.style.fp8_activation_input;
  const bool result = !gated && b.model.activation == job::Activation::relu;
  keep(op, result ? "result" : "input",
       result   ? output
       : narrow ? b.tensor(input.bytes / b.element)
                : input);
  std::int64_t forward = in + one;
  std::int64_t backward = one + 2 * in;
  int forward_kernels = 1;
  int backward_kernels = 1;
  if (gated &&
      !fused) {  // forward: silu, product; backward: both gradients of the product, that of silu
    forward = 2 * one + 3 * one;
    backward = 3 * one + 3 * one + 3 * one;
    forward_kernels = 2;
    keep(op, "silu", b.tensor(one));  // a factor of the product
    backward_kernels = 3;
    op.backward_temporary = Bytes(one);
    if (!b.fused_gate()) {
      // The product's two gradients are alive at once. That of the gate's input is computed after
      // the other half's linear has run.
      op.input_gradient = Bytes(one);
    } else {
      // Halves of rows are strided, and PyTorch takes their elements one by one: both kernels
      // forward; backward, the gradient of the silu and that of its input. The gradients of both
      // halves are concatenated (torch 2.6, derivatives.yaml: split_with_sizes_backward).
      const std::int64_t elements = one / b.element;
      op.forward_singles = {2 * elements, (2 + 3) * one};
      op.backward_singles = {2 * elements, (3 + 3) * one};
      backward += 2 * in;
      ++backward_kernels;
    }
  }
  if (narrow) {  // a kernel each way, and the wide input again in the backward pass
    forward += in + in / b.element;
    backward += in + in / b.element;
    ++forward_kernels;
    ++backward_kernels;
    op.backward_temporary = Bytes(in);
  }
  if (composes_gelu(b)) {
    // transformers 5.23.0, activations.py:66 (NewGELUActivation): 0.5 x (1 + tanh(c (x + d x^3))).
    // The last product keeps both factors, tanh its result, the power its input. Forward: 0.5 x,
    // the power, d, the sum, c, tanh, 1 +, the product. Back: the gradients of both factors, which
    // stand at once, those of tanh, c and d, three kernels of the power's, 0.5, two sums.
    keep(op, kHalf, b.tensor(one));
    keep(op, "tanh", b.tensor(one));
    keep(op, "one plus tanh", b.tensor(one));
    forward = bytes_of_kernels(one, {1, 1, 1, 2, 1, 1, 1, 2});
    backward = bytes_of_kernels(one, {2, 2, 2, 1, 1, 1, 1, 2, 1, 2, 2});
    forward_kernels = 8;
    backward_kernels = 11;
    op.backward_temporary = Bytes(one);
  }
  if (composes(b, job::Activation::relu2)) {
    compose_squared_relu(b, one, op);
    forward = op.forward_moved.count();
    backward = op.backward_moved.count();
    forward_kernels = op.forward_kernels;
    backward_kernels = op.backward_kernels;
  }
  if (bias > 0) {
    backward += in;  // sum over rows
    ++backward_kernels;
    if (!fused && !b.style.fused_linear_bias) {
      forward += 2 * in;
      ++forward_kernels;
    }
  }
  if (in_place && b.fused_gate()) {
    // Halves of rows are copied ahead of the kernel, which keeps the copies and writes over them
    // (liger-kernel 0.8.5, ops/utils.py:48, ensure_contiguous); back they are joined.
    op.saved.clear();
    keep(op, "halves", b.tensor(in));
    forward += 2 * in;
    backward += 2 * in;
    forward_kernels += 2;
    ++backward_kernels;
  } else if ((b.style.compiled && !gated) || in_place) {
    op.gradient = Operator::Gradient::in_kept;  // one kernel, which reads both for the last time
  }
  moves(op, forward, backward, forward_kernels, backward_kernels);
  return op;
}

Node add_mlp(Builder& b, Module module, std::int64_t ffn, Node from, const Tensor& input) {
  const job::Model& m = b.model;
  const bool shared = module == Module::shared_expert;
  const std::int64_t width = ffn / b.shard.tensor;
  const std::int64_t fc1_width = (m.gated_mlp ? 2 : 1) * width;
  const std::int64_t bias = m.biases.mlp ? fc1_width : 0;
  const Tensor fc1_output = b.tensor(b.tokens * fc1_width * b.element);
  const Tensor fc2_input = b.tensor(b.tokens * width * b.element);

  Node node = add_linear(b,
                         {shared ? "shared_fc1" : "fc1",
                          module,
                          TensorRole::column,
                          {b.tokens, fc1_width, b.hidden, 1},
                          bias,
                          b.element,
                          m.gated_mlp && !b.fused_gate() ? 2 : 1},
                         from, input);
  Operator act = activation(b, shared ? "shared_act" : "activation", module, b.tokens, width, bias,
                            fc1_output, fc2_input);
  node = b.add(std::move(act), {node});
  return add_linear(b,
                    {shared ? "shared_fc2" : "fc2",
                     module,
                     TensorRole::row,
                     {b.tokens, b.hidden, width, 1},
                     m.biases.mlp ? b.hidden : 0,
                     b.element,
                     1},
                    node, fc2_input);
}

}  // namespace stepcast::model
