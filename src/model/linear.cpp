#include "builder.h"

namespace stepcast::model {

Operator linear(const Linear& l) {
  const auto& [m, n, k, batch] = l.gemm;
  Operator op = named(l.name, batch > 1 ? OpKind::grouped_gemm : OpKind::gemm, l.module);
  op.tensor = l.role;
  op.gemm = l.gemm;
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) *
                       static_cast<double>(k) * static_cast<double>(batch);
  op.forward = op.input_grad = op.weight_grad = Flops(flops);
  const std::int64_t once = batch * (m * k + k * n + m * n) * l.element;
  moves(op, once, 2 * once, l.launches, 2 * l.launches);
  op.forward_output = Bytes(batch * m * n * l.element);
  op.parameters = batch * k * n + l.bias;
  return op;
}

Node add_linear(Builder& b, const Linear& l, Node from, const Tensor& input) {
  Operator op = linear(l);
  keep(op, "input", input);
  return b.add(std::move(op), {from});
}

Node add_product(Builder& b, const char* name, const Gemm& g, Node from) {
  Operator op = named(name, OpKind::batched_gemm, Module::core_attention);
  op.gemm = g;
  const double flops = 2.0 * static_cast<double>(g.batch) * static_cast<double>(g.m) *
                       static_cast<double>(g.n) * static_cast<double>(g.k);
  op.forward = Flops(flops);
  // Both factors are activations, so the backward pass has two products for input gradients and
  // none for a weight's.
  op.input_grad = Flops(2 * flops);
  const std::int64_t once = g.batch * (g.m * g.k + g.k * g.n + g.m * g.n) * b.element;
  moves(op, once, 2 * once, 1, 2);
  op.forward_output = Bytes(g.batch * g.m * g.n * b.element);
  return b.add(std::move(op), {from});
}

}  // namespace stepcast::model
