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

}  // namespace stepcast::model
