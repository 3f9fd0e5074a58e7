// Casts around products of 8-bit and 4-bit operands, as Transformer Engine launches them
// (pytorch/module/linear.py, layernorm_linear.py, grouped_linear.py; common/cast): a product's
// input is cast once for the product and once, transposed or scaled along columns, for its weight
// gradient; its output's gradient likewise; weights once a step, the copies kept for all
// micro-batches. The logits' product and the router stay in 16 bits. What the casts write is what
// the weight gradient keeps, and what sequence parallelism gathers. torchao's linears are in
// passes_linear_casts.cpp.
//
// Frozen weights take no weight gradient, so that nothing is cast along columns for it
// (pytorch/module/linear.py: backward_needs_input, requires_wgrad); where they stand in 8 bits
// themselves they are not cast. Adapters beside them are Megatron-LM's own linears, in 16 bits
// (nemo-toolkit 2.5.0, megatron/adapters/parallel_adapters.py:52; megatron-bridge 0.3.1,
// peft/utils.py:26).
#include "passes_quantise.h"

#include <algorithm>

#include "pass_feature.h"
#include "stepcast/lower/unit_memory.h"

namespace stepcast::lower {

using model::Operator;
using model::OpKind;

bool quantised(const PassState& state, const Operator& op) {
  return op.gemm && few_bits(state) && op.kind != OpKind::router &&
         op.kind != OpKind::batched_gemm && op.module != model::Module::head && !op.adapter;
}

DType attention_type(const PassState& state) {
  return few_bits(state) && state.plan.style.fp8_attention ? DType::fp8 : state.dtype;
}

DType operand_type(const PassState& state, const Operator& op) {
  return quantised(state, op) || !few_bits(state) ? state.operands : state.dtype;
}

double operand_width(const PassState& state, const Operator& op) {
  if (!quantised(state, op)) {
    return state.width;
  }
  switch (state.operands) {
    case DType::mxfp8:
      return 1 + 1.0 / 32;
    case DType::nvfp4:
      return 0.5 + 1.0 / 16;
    case DType::mxfp4:
      return 0.5 + 1.0 / 32;
    default:
      return bytes_per_element(state.operands);
  }
}

WeightWidths weight_widths(const strategy::Precision& precision) {
  constexpr double kSquare = 4.0 / (128 * 128);  // a scale a square
  switch (precision.products) {
    case DType::fp8:
      return {1, precision.compute_capability >= 10 ? 0.0 : 1.0};
    case DType::fp8_block:
      return {1 + kSquare, 1 + kSquare};
    case DType::mxfp8:
      return {1 + 1.0 / 32, 1 + 1.0 / 32};
    case DType::nvfp4:
      return {0.5 + 1.0 / 16, 0.5 + 1.0 / 16};
    case DType::mxfp4:
      return {0.5 + 1.0 / 32, 0.5 + 1.0 / 32};
    default:
      return {};
  }
}

double frozen_columns(const PassState& state, const Operator& op) {
  const strategy::Precision& precision = state.plan.precision;
  const bool own_format =
      precision.frozen == precision.products ||
      (bytes_per_element(precision.frozen) == 1 && bytes_per_element(precision.products) == 1);
  return precision.weight_copies == strategy::WeightCopies::kept && op.frozen > 0 &&
                 op.frozen_width == 0 && own_format && quantised(state, op)
             ? weight_widths(precision).columns
             : 0;
}

namespace {

// What an operator reads as its input, among the tensors that it saves.
const model::Saved* saved_input(const Operator& op) {
  for (const model::Saved& saved : op.saved) {
    if (saved.name == "input") {
      return &saved;
    }
  }
  return nullptr;
}

}  // namespace

bool shares_input(const PassState& state, std::size_t i) {
  const auto& ops = state.graph.operators;
  const model::Saved* input = saved_input(ops[i]);
  for (std::size_t j = 0; input != nullptr && j < i; ++j) {
    const model::Saved* other = saved_input(ops[j]);
    if (other != nullptr && quantised(state, ops[j]) && other->storage == input->storage) {
      return true;
    }
  }
  return false;
}

bool reads_kept_output(const PassState& state, std::size_t i) {
  const auto& ops = state.graph.operators;
  const model::Saved* input = saved_input(ops[i]);
  return input != nullptr && std::any_of(ops.begin(), ops.end(), [&](const Operator& op) {
           return keeps_12_bits(state, op) &&
                  std::any_of(op.saved.begin(), op.saved.end(), [&](const model::Saved& saved) {
                    return saved.name == "output" && saved.storage == input->storage;
                  });
         });
}

int gathered_shards(const PassState& state, const Operator& op, model::TensorRole gathered) {
  const model::Shard& shard = state.plan.shard;
  return shard.tensor > 1 && shard.sequence_parallel && op.tensor == gathered ? shard.tensor : 1;
}

bool gathered_in_8_bits(const PassState& state, const Operator& op) {
  return state.plan.parameter_gather.float8 != Float8Gather::none && quantised(state, op) &&
         op.parameters > 0 && !op.expert_parameters;
}

bool stands_narrow(const PassState& state, const Operator& op) {
  return op.frozen > 0 && op.parameters == 0 &&
         bytes_per_element(state.plan.precision.frozen) < state.width;
}

void write_cast(PassState& state, const std::string& label, double elements,
                const CastRecipe& recipe, double seconds_more) {
  const auto bytes = static_cast<std::int64_t>(elements * recipe.moved / recipe.kernels);
  if (bytes <= 0) {
    return;
  }
  const cost::Priced one = state.context.kernels->memory(cost::MemoryOp::elementwise, Bytes(bytes));
  const Time time = one.time * recipe.kernels + seconds(seconds_more);
  kernel(state, {{time, one.curve}, recipe.kernels, label + " cast", kMemoryBound});
}

namespace {

using strategy::WeightCopies;

// Scales: mxfp8 one byte for 32 elements, fp8_block four for 128, nvfp4 one for 16.
// `columns`: a weight gradient reads it too, or it is a weight.
CastRecipe transformer_engine_recipe(DType format, double capability,
                                     const cost::Software& software, bool columns) {
  const int copies = columns ? 2 : 1;
  switch (format) {
    case DType::fp8:
      // Scaled by the tensor's maximum, which is read first. Before Blackwell products take
      // operands that lie along the sum alone, so a transposed copy is written beside.
      return {2.0 + 2 + (capability >= 10 ? 1 : copies), 2};
    case DType::fp8_block:
      return {2 + copies * (1 + 4.0 / 128), 1};
    case DType::mxfp8:
      // Rows and columns by 32 elements each, beside a kernel that lays the scales out for the
      // product.
      return {software.mxfp8_cast * (2 + copies * (1 + 1.0 / 32)), 2};
    case DType::nvfp4:
      // The maximum first; then rows; then columns after a random Hadamard transform.
      return {2 + copies * (2 + 0.5 + 1.0 / 16), 1 + copies};
    case DType::mxfp4:
      // Rows, then columns: blocks of 32 along the sum, each with a scale of its own.
      return {copies * (2 + 0.5 + 1.0 / 32), copies};
    default:
      return {};
  }
}

class OperandCasts : public PassFeature {
 public:
  explicit OperandCasts(PassState& state) : state_(state) {}

  // The product's input, unless an operator before cast the same tensor, and its share of the
  // weights' cast.
  void before_forward(std::size_t i) override {
    const Operator& op = state_.graph.operators[i];
    if (!quantised(state_, op)) {
      return;
    }
    const model::Gemm& g = *op.gemm;
    if (!shares_input(state_, i) && !made_narrow(op) && !arrives_narrow(op, "expert_fc1")) {
      cast(op, op.name + " input", Cast::input,
           static_cast<double>(g.m * g.k * g.batch) /
               gathered_shards(state_, op, model::TensorRole::column));
    }
    const bool turns = turned_over(op);
    if (turns && copies_ == WeightCopies::with_units) {
      turn_over(op);
    }
    if (cast_each_pass(op)) {
      cast(op, op.name + " weight", Cast::weight, static_cast<double>(g.k * g.n * g.batch));
    } else if (state_.category == program::Category::compute && !stands_narrow(state_, op) &&
               !turns) {
      cast(op, op.name + " weight", Cast::weight,
           static_cast<double>(g.k * g.n * g.batch) / std::max(1, state_.plan.micro_batches));
    }
  }

  // The gradient of the product's result.
  void before_backward(std::size_t i) override {
    const Operator& op = state_.graph.operators[i];
    if (!quantised(state_, op)) {
      return;
    }
    const model::Gemm& g = *op.gemm;
    if (apart_) {
      cast_apart(op, i);
    } else if (!made_narrow(op) || op.tensor != model::TensorRole::column) {
      cast(op, op.name + " grad", Cast::gradient,
           static_cast<double>(g.m * g.n * g.batch) /
               gathered_shards(state_, op, model::TensorRole::row));
    }
    if (turned_over(op)) {
      turn_over(op);
    }
  }

  void add_memory(std::size_t i, TensorRules& rules) const override {
    const Operator& op = state_.graph.operators[i];
    rules.cast = quantised(state_, op) && !reads_kept_output(state_, i);
    rules.share = operand_width(state_, op) / state_.width;
    if (!quantised(state_, op)) {
      return;
    }
    const auto weight = static_cast<double>(op.gemm->k * op.gemm->n * op.gemm->batch);
    const auto blocks = [](double bytes) { return whole_blocks(static_cast<std::int64_t>(bytes)); };
    if (turned_over(op)) {
      rules.forward += copies_ == WeightCopies::with_units ? blocks(weight) : 0;
      rules.input_grad += blocks(weight);
    }
    if (cast_each_pass(op)) {  // saved with what the product reads
      const WeightWidths widths = weight_widths(state_.plan.precision);
      rules.kept += blocks(weight * widths.rows) + blocks(weight * widths.columns);
    }
  }

 private:
  enum class Cast { input, weight, gradient };

  // Transformer Engine 2.8, pytorch/ops/basic: rmsnorm.py and activation.py write what the next
  // product reads (next_op_input_quantizer), and the activation's backward pass the gradient of the
  // product before it (prev_op_grad_output_quantizer). Delayed scales and blocks of 32 need no
  // maximum of the whole tensor first. Megatron-LM fuses MLPs alone (TEFusedMLP).
  bool made_narrow(const Operator& op) const {
    return state_.plan.style.fused_casts && op.module == model::Module::mlp;
  }

  // Rows that came to the experts in the products' format: tokens, or gradients of results.
  bool arrives_narrow(const Operator& op, const char* product) const {
    return state_.plan.style.routing.fp8_dispatch && op.name == product;
  }

  // What a product's backward pass casts where every direction has a kernel of its own (profile of
  // DeepSeek-V3's training, deepseek-ai/profile-data: per_token_cast,
  // per_channel_cast_and_transpose and batched_transpose around each product): the output's
  // gradient along rows, and again along columns for the weight gradient; the input, kept in 8
  // bits, along columns; the weight turned over for the input gradient.
  void cast_apart(const Operator& op, std::size_t i) {
    const model::Gemm& g = *op.gemm;
    const double scaled = 1 + 4.0 / 128;
    const auto gradients = static_cast<double>(g.m * g.n * g.batch) /
                           gathered_shards(state_, op, model::TensorRole::row);
    const bool arrives = arrives_narrow(op, "expert_fc2");
    const double slow = state_.context.kernels->software().block_cast;
    const auto one = [&](const std::string& label, double bytes) {
      memory_kernel(state_, cost::MemoryOp::elementwise, static_cast<std::int64_t>(slow * bytes),
                    op.name + label);
    };
    if (!arrives) {
      one(" grad cast", gradients * (state_.width + scaled));
    }
    if (op.parameters == 0) {
      return;
    }
    one(" weight transpose", 2 * static_cast<double>(g.k * g.n * g.batch));
    one(" grad cast along columns", gradients * ((arrives ? scaled : state_.width) + scaled));
    if (!shares_input(state_, i)) {
      one(" input cast along columns", 2 * scaled * static_cast<double>(g.m * g.k * g.batch) /
                                           gathered_shards(state_, op, model::TensorRole::column));
    }
  }

  // A weight that is trained in the products' format (fp8_param_gather).
  bool trained_narrow(const Operator& op) const {
    return op.parameters > 0 && bytes_per_element(state_.plan.precision.parameters) < 2;
  }

  // An 8-bit weight whose columns are not kept, on a device whose input gradient reads them.
  bool turned_over(const Operator& op) const {
    const bool trained =
        (copies_ == WeightCopies::each_pass || copies_ == WeightCopies::with_units) &&
        trained_narrow(op);
    const bool frozen = copies_ != WeightCopies::kept && stands_narrow(state_, op);
    return (trained || frozen) && state_.operands == DType::fp8 &&
           state_.plan.precision.compute_capability < 10;
  }
  void turn_over(const Operator& op) {
    const model::Gemm& g = *op.gemm;
    memory_kernel(state_, cost::MemoryOp::elementwise, 2 * g.k * g.n * g.batch,
                  op.name + " weight transpose");
  }

  // A 16-bit weight whose copies are not kept.
  bool cast_each_pass(const Operator& op) const {
    return copies_ == WeightCopies::each_pass && !stands_narrow(state_, op) && !trained_narrow(op);
  }

  void cast(const Operator& op, const std::string& label, Cast which, double elements) {
    const cost::Software& software = state_.context.kernels->software();
    const bool columns = !apart_ && (which == Cast::weight || op.parameters > 0);
    CastRecipe recipe = transformer_engine_recipe(
        state_.operands, state_.plan.precision.compute_capability, software, columns);
    recipe.moved *= apart_ ? software.block_cast : 1;
    write_cast(state_, label, elements, recipe);
  }

  PassState& state_;
  WeightCopies copies_ = state_.plan.precision.weight_copies;
  bool apart_ = state_.plan.style.casts_apart;  // each direction has a kernel of its own
};

}  // namespace

std::unique_ptr<PassFeature> make_casts(PassState& state) {
  return few_bits(state) && !state.plan.precision.casts_operands_twice
             ? std::make_unique<OperandCasts>(state)
             : nullptr;
}

}  // namespace stepcast::lower
