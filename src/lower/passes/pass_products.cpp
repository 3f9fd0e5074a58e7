#include "pass_products.h"

#include "passes_quantise.h"

namespace stepcast::lower {

using model::Operator;
using model::OpKind;

cost::Priced product(const PassState& state, const Operator& op, const model::Gemm& shape,
                     cost::Layout layout, bool accumulates) {
  model::Gemm one = shape;
  // Rows are the sum of a weight gradient.
  std::int64_t& rows = layout == cost::Layout::weight_grad ? one.k : one.m;
  rows = (rows + op.row_parts - 1) / op.row_parts;
  cost::Priced out = state.context.kernels->gemm(
      {.shape = one,
       .dtype = op.kind == OpKind::batched_gemm ? state.dtype : operand_type(state, op),
       .layout = layout,
       .accumulate_fp32 = accumulates,
       .operands_cast = true,
       .pace = cost::Pace::training,
       .relief = state.relief});
  out.time = out.time * op.row_parts;
  return out;
}

cost::Priced grouped_product(const PassState& state, const Operator& op, const model::Gemm& shape,
                             cost::Layout layout, bool accumulates) {
  cost::GemmQuery each{
      .shape = shape, .dtype = operand_type(state, op), .layout = layout, .operands_cast = true};
  each.shape.batch = 1;
  if (!state.plan.expert_dispatch.grouped) {
    each.accumulate_fp32 = accumulates;
    const cost::Priced one = state.context.kernels->gemm(each);
    return {one.time * shape.batch, one.curve};
  }
  each.pace = cost::Pace::training;
  each.relief = state.relief;
  return state.context.kernels->grouped_gemm(each, static_cast<int>(shape.batch));
}

int grouped_launches(const PassState& state, const Operator& op) {
  return state.plan.expert_dispatch.launches_each_expert ? static_cast<int>(op.gemm->batch) : 1;
}

std::int64_t handed_gradient_bytes(const PassState& state, const Operator& op) {
  if (!state.plan.accumulation.hands_on_gradients || keeps_empty_gradient(state.plan, op)) {
    return 0;
  }
  // A loss in one function with the head makes it in the format of the weight.
  const bool wide = state.plan.style.autocast && op.tensor == model::TensorRole::vocab_head &&
                    joins_head(state.plan.loss_form.kernel);
  // Experts that run one after the other hand on theirs one after the other.
  const bool apart =
      op.kind == model::OpKind::grouped_gemm && op.gemm && !state.plan.expert_dispatch.grouped;
  const std::int64_t parameters = op.parameters / (apart ? op.gemm->batch : 1);
  return static_cast<std::int64_t>(static_cast<double>(parameters) * (wide ? 4 : state.width));
}

bool keeps_empty_gradient(const strategy::Plan& plan, const Operator& op) {
  return plan.accumulation.empty_gradients_stand && op.gemm && op.parameters > 0 &&
         op.kind != OpKind::router && op.module != model::Module::head;
}

}  // namespace stepcast::lower
