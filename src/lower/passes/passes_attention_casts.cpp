// Attention that reads 8 bits, and results of it that are kept in 12 (DeepSeek-V3, arXiv
// 2412.19437): casts around its kernels.
#include "pass_feature.h"
#include "passes_quantise.h"

namespace stepcast::lower {

using model::Operator;

namespace {

class AttentionCasts : public PassFeature {
 public:
  explicit AttentionCasts(PassState& state) : state_(state) {}

  void before_forward(std::size_t i) override {
    const Operator& op = state_.graph.operators[i];
    if (narrow(op)) {
      cast(op.name + " qkv", qkv_elements(op));
    }
  }

  // The result, back to 16 bits.
  void after_forward(std::size_t i) override {
    const Operator& op = state_.graph.operators[i];
    if (narrow(op)) {
      cast(op.name + " output", output_elements(op));
    }
    if (keeps_12_bits(state_, op)) {
      cast_output(op, " output");
    }
  }

  void before_backward(std::size_t i) override {
    const Operator& op = state_.graph.operators[i];
    if (narrow(op)) {
      cast(op.name + " grad", output_elements(op));
    }
    if (keeps_12_bits(state_, op)) {
      cast_output(op, " output again");
    }
  }

  void after_backward(std::size_t i) override {
    const Operator& op = state_.graph.operators[i];
    if (narrow(op)) {
      cast(op.name + " qkv grad", qkv_elements(op));
    }
  }

 private:
  bool narrow(const Operator& op) const {
    return state_.plan.style.fp8_attention && op.attention &&
           !state_.plan.precision.casts_operands_twice;
  }

  static double qkv_elements(const Operator& op) {
    const model::AttentionShape& a = *op.attention;
    const std::int64_t width =
        std::int64_t{a.heads} * a.qk_dim + std::int64_t{a.kv_heads} * (a.qk_dim + a.v_dim);
    return static_cast<double>(a.sequences * a.query_length * width);
  }
  static double output_elements(const Operator& op) {
    const model::AttentionShape& a = *op.attention;
    return static_cast<double>(a.sequences * a.query_length * a.heads * a.v_dim);
  }

  // Between 16 bits and 8, by the scale of steps before (Transformer Engine's FusedAttnFunc:
  // combine_and_quantize, combine_and_dequantize).
  void cast(const std::string& label, double elements) {
    memory_kernel(state_, cost::MemoryOp::elementwise,
                  static_cast<std::int64_t>(elements * (state_.width + 1)), label + " cast");
  }

  // Between 16 bits and 12.
  void cast_output(const Operator& op, const std::string& label) {
    memory_kernel(state_, cost::MemoryOp::elementwise,
                  static_cast<std::int64_t>(output_elements(op) * (state_.width + 1.5)),
                  op.name + label + " cast");
  }

  PassState& state_;
};

}  // namespace

bool keeps_12_bits(const PassState& state, const Operator& op) {
  return few_bits(state) && state.plan.style.fp12_attention_output && op.attention;
}

std::unique_ptr<PassFeature> make_attention_casts(PassState& state) {
  return few_bits(state) ? std::make_unique<AttentionCasts>(state) : nullptr;
}

}  // namespace stepcast::lower
