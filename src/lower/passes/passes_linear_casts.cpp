// torchao's linears in 8 and 4 bits (0.14.1, float8/float8_linear.py; prototype/mx_formats): they
// keep what they read (save_for_backward(input_hp, weight_hp_t)) and cast it anew for every
// product, and their weights in each pass, for the product and for the input gradient, unless FSDP2
// gathered these in 8 bits.
#include <algorithm>

#include "pass_feature.h"
#include "passes_parameters.h"
#include "passes_quantise.h"
#include "stepcast/lower/unit_memory.h"

namespace stepcast::lower {

using model::Operator;

namespace {

// For a product, or along its sum for a gradient; a gradient of a result is cast for both.
enum class Reader { product, gradient, both };

// The maximum, then the cast; what a weight gradient wants along its sum, and an input gradient of
// its weight, is copied from that (v0.9, float8_ops.py: preprocess_addmm; roofline_utils.py counts
// the same traffic). Without a compiler every step is a kernel: |x|, its maximum; the product with
// the scale and the clamp in fp32, the cast (float8_utils.py). Narrower formats have kernels of
// their own, along rows and along columns apart (mx_formats).
CastRecipe recipe_of(DType format, bool compiled, Reader reader) {
  if (format == DType::fp8 || format == DType::fp8_block) {
    const CastRecipe cast = compiled ? CastRecipe{2 + (2 + 1), 2}
                                     : CastRecipe{(2 + 2) + 2 + (2 + 4) + (4 + 4) + (4 + 1), 5};
    const bool copies = reader != Reader::product;
    return {cast.moved + (copies ? 1 + 1 : 0), cast.kernels + (copies ? 1 : 0)};
  }
  const int times = reader == Reader::both ? 2 : 1;
  return {times * (2 + bytes_per_element(format) * (1 + 1.0 / 16)), times};
}

class LinearCasts : public PassFeature {
 public:
  explicit LinearCasts(PassState& state) : state_(state) {}

  void before_forward(std::size_t i) override {
    const Operator& op = state_.graph.operators[i];
    if (!quantised(state_, op)) {
      return;
    }
    if (!input_is_cast(i)) {
      cast(op.name + " input", Reader::product,
           linears(op) * input_elements(op) / gathered_shards(state_, op, Role::column));
    }
    if (!gathered_in_8_bits(state_, op) && !stands_narrow(state_, op) && !cast_with_backward()) {
      cast(op.name + " weight", Reader::product, weight_elements(op));
    }
  }

  void before_backward(std::size_t i) override {
    const Operator& op = state_.graph.operators[i];
    if (!quantised(state_, op)) {
      return;
    }
    cast(op.name + " grad", Reader::both,
         output_elements(op) / gathered_shards(state_, op, Role::row));
    cast_weight_again(op);
    if (!input_is_cast(i)) {
      cast(op.name + " input again", Reader::gradient, linears(op) * input_elements(op));
    }
  }

  void add_memory(std::size_t i, TensorRules& rules) const override {
    const Operator& op = state_.graph.operators[i];
    rules.cast = quantised(state_, op) && compiled() && !reads_kept_output(state_, i);
    rules.share = made_again() ? 0 : operand_width(state_, op) / state_.width;
    if (rules.cast && made_again()) {
      rules.backward += static_cast<std::int64_t>(input_elements(op) * operand_width(state_, op));
    }
    rules.kept += kept_of_mlp(op);
    if (op.kind == model::OpKind::activation && compiled() && casts_around(i)) {
      add_gradients_of_halves(i, rules);
    }
  }

 private:
  using Role = model::TensorRole;

  // What the partitioner of torch 2.15 keeps of an MLP in layers that never run again: what kernels
  // of torchao make of inputs for the weight gradient (titan03-mxfp8-l8), and weights in 8 bits,
  // turned for the input gradient, that were gathered so (titan02-tensorwise-l8-gather) or whose
  // scale tensor ranks agreed on (titan02-tensorwise-tp4-l8).
  std::int64_t kept_of_mlp(const Operator& op) const {
    const strategy::Plan& plan = state_.plan;
    if (!quantised(state_, op) || !compiled() || plan.recompute.kind != RecomputeKind::none ||
        plan.precision.compiled_casts != CompiledCasts::wide || op.module != model::Module::mlp) {
      return 0;
    }
    double bytes = 0;
    if (!scaled()) {
      bytes += linears(op) * input_elements(op) * operand_width(state_, op);
    }
    if (gathered_in_8_bits(state_, op) ||
        (state_.operands == DType::fp8 && plan.shard.tensor > 1)) {
      bytes += weight_elements(op);
    }
    return static_cast<std::int64_t>(bytes);
  }

  // An activation between products whose operands are cast with scales of tensors or rows.
  bool casts_around(std::size_t i) const {
    const auto& ops = state_.graph.operators;
    return scaled() && i > 0 && i + 1 < ops.size() && quantised(state_, ops[i - 1]) &&
           quantised(state_, ops[i + 1]);
  }

  // One kernel makes the activation's result again, and both halves' gradients in both layouts in
  // 8 bits, which together are as large as those gradients in 16 bits. With a scale for each row
  // that takes several kernels, and gradients of a gated MLP stand in wider formats between them
  // (tests/oracle, titan0*-narrow-*; no MLP without a gate was recorded).
  void add_gradients_of_halves(std::size_t i, TensorRules& rules) const {
    const Operator& next = state_.graph.operators[i + 1];
    const auto elements = static_cast<std::int64_t>(input_elements(next));
    constexpr std::int64_t kInput = 1;  // made again, in 8 bits
    constexpr std::int64_t kRows = 2;   // gradients by rows and by columns, of one half
    constexpr std::int64_t kWide = 8;   // three tensors in fp32 in place of two in 16 bits
    if (made_again()) {
      rules.backward += kInput * elements;
    }
    if (state_.operands == DType::fp8_block && state_.plan.model.gated_mlp) {
      const bool wide = state_.plan.precision.compiled_casts == CompiledCasts::wide;
      rules.backward += (kRows + (wide ? kWide : 0)) * elements;
    }
  }

  bool compiled() const { return state_.plan.style.compiled; }
  static double input_elements(const Operator& op) {
    return static_cast<double>(op.gemm->m * op.gemm->k * op.gemm->batch);
  }
  static double output_elements(const Operator& op) {
    return static_cast<double>(op.gemm->m * op.gemm->n * op.gemm->batch);
  }
  static double weight_elements(const Operator& op) {
    return static_cast<double>(op.gemm->k * op.gemm->n * op.gemm->batch);
  }

  // Under torch.compile the partitioner of the joint graph decides what is kept: a cast for the
  // weight gradient fuses with what makes its input from tensors that norm, activation and
  // attention keep anyway, so that the backward pass makes both anew. Up to torch 2.7 one with one
  // scale for the tensor, which both products read as it stands, is kept, unless a policy by
  // operator says what is (tests/oracle, titan01-tensorwise-*, titan02-tensorwise-*).
  bool made_again() const {
    const bool by_policy = state_.plan.recompute.kind == RecomputeKind::per_op;
    return compiled() && (state_.operands != DType::fp8 || by_policy ||
                          state_.plan.precision.compiled_casts != CompiledCasts::kept);
  }

  // One scale for a tensor or a row: plain operators, which a compiler fuses. Blocks are cast by
  // kernels of torchao's own, which it does not look into.
  bool scaled() const {
    return state_.operands == DType::fp8 || state_.operands == DType::fp8_block;
  }
  // Each linear casts what it reads for itself; a compiler sees one cast.
  bool one_cast() const { return compiled() && scaled(); }
  bool input_is_cast(std::size_t i) const { return one_cast() && shares_input(state_, i); }
  double linears(const Operator& op) const {
    const auto& plan = state_.plan;
    const std::size_t parts =
        one_cast() ? 1 : result_shares(plan.model, plan.shard.tensor, op).size();
    return static_cast<double>(std::max<std::size_t>(parts, 1));
  }

  // A compiler sees one cast in a product that runs again and its input gradient: a weight with one
  // scale is cast alike for both.
  bool cast_with_backward() const {
    return state_.category != program::Category::compute && compiled() &&
           state_.operands == DType::fp8;
  }

  // For the input gradient, which reads the weight along its outputs.
  void cast_weight_again(const Operator& op) {
    if (gathered_in_8_bits(state_, op)) {
      memory_kernel(state_, cost::MemoryOp::elementwise,
                    static_cast<std::int64_t>(2 * weight_elements(op)),
                    op.name + " weight transpose");
    } else if (!stands_narrow(state_, op)) {
      cast(op.name + " weight again", Reader::gradient, weight_elements(op));
    }
  }

  void cast(const std::string& label, Reader reader, double elements) {
    const CastRecipe recipe = recipe_of(state_.operands, compiled(), reader);
    const double columns = state_.operands == DType::fp8_block && reader != Reader::product
                               ? elements * state_.context.kernels->software().column_cast
                               : 0;
    write_cast(state_, label, elements, recipe, columns);
  }

  PassState& state_;
};

}  // namespace

std::unique_ptr<PassFeature> make_linear_casts(PassState& state) {
  return few_bits(state) && state.plan.precision.casts_operands_twice
             ? std::make_unique<LinearCasts>(state)
             : nullptr;
}

}  // namespace stepcast::lower
