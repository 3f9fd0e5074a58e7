#include "pass_products.h"

#include "passes_quantise.h"

namespace stepcast::lower {

using model::Operator;
using model::OpKind;

cost::Priced product(const PassState& state, const Operator& op, const model::Gemm& shape,
                     cost::Layout layout, bool accumulates) {
  return state.context.kernels->gemm(
      {.shape = shape,
       .dtype = op.kind == OpKind::batched_gemm ? state.dtype : operand_type(state, op),
       .layout = layout,
       .accumulate_fp32 = accumulates,
       .operands_cast = true,
       .pace = cost::Pace::training});
}

cost::Priced grouped_product(const PassState& state, const Operator& op, const model::Gemm& shape,
                             cost::Layout layout, bool accumulates) {
  cost::GemmQuery each{
      .shape = shape, .dtype = operand_type(state, op), .layout = layout, .operands_cast = true};
  each.shape.batch = 1;
  if (!state.plan.job.moe.grouped) {
    each.accumulate_fp32 = accumulates;
    const cost::Priced one = state.context.kernels->gemm(each);
    return {one.time * shape.batch, one.curve};
  }
  each.pace = cost::Pace::training;
  return state.context.kernels->grouped_gemm(each, static_cast<int>(shape.batch));
}

// Transformer Engine's grouped product is one of cuBLAS for each expert, over several streams
// (multi_stream_cublas_gemm).
int grouped_launches(const strategy::Plan& plan, const Operator& op) {
  const bool apart = plan.job.system.transformer_engine || !plan.job.moe.grouped;
  return apart ? static_cast<int>(op.gemm->batch) : 1;
}

// Megatron-LM's own kernel of 2022 adds to fp32 gradients alone (wgrad_gemm_accum_fp32);
// Transformer Engine's products add to any.
bool accumulates_in_product(const strategy::Plan& plan) {
  const job::System& system = plan.job.system;
  return system.gradient_accumulation_fusion &&
         (plan.job.memory.dtypes.gradients == DType::fp32 || system.transformer_engine);
}

std::int64_t handed_gradient_bytes(const PassState& state, const Operator& op) {
  const bool own = state.plan.job.system.family == job::System::Family::megatron;
  if (!own || keeps_empty_gradient(state.plan, op)) {
    return 0;
  }
  return static_cast<std::int64_t>(static_cast<double>(op.parameters) * state.width);
}

bool keeps_empty_gradient(const strategy::Plan& plan, const Operator& op) {
  const job::System& system = plan.job.system;
  return system.transformer_engine && system.gradient_accumulation_fusion && op.gemm &&
         op.parameters > 0 && op.kind != OpKind::router && op.module != model::Module::head;
}

}  // namespace stepcast::lower
