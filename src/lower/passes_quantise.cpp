// Casts around products of 8-bit and 4-bit operands, as Transformer Engine launches them
// (pytorch/module/linear.py, layernorm_linear.py, grouped_linear.py; common/cast): a product's
// input is cast once for the product and once, transposed or scaled along columns, for its weight
// gradient; its output's gradient likewise; weights once a step, the copies kept for all
// micro-batches. The logits' product and the router stay in 16 bits. What the casts write is what
// the weight gradient keeps, and what sequence parallelism gathers. torchao's linears keep what
// they read and cast it again for the weight gradient (float8_linear.py:
// save_for_backward(input_hp, ..)).
#include "pass_builder.h"

namespace stepcast::lower {

using model::Operator;
using model::OpKind;
using program::Category;

namespace {

struct Recipe {
  double moved = 0;  // bytes read and written an element
  int kernels = 1;
};

// torchao (v0.9, torchao/float8) makes the maximum, then casts; what a product wants along its sum
// is copied from that (float8_ops.py: addmm_float8_unwrapped; roofline_utils.py counts the same
// traffic). Without a compiler every step is a kernel: |x|, its maximum; the product with the scale
// and the clamp in fp32, the cast (float8_utils.py). Narrower formats have kernels of their own,
// along rows and along columns apart (mx_formats).
Recipe torchao_recipe(job::DType format, bool compiled, bool for_product, bool for_weight_grad) {
  if (format == job::DType::fp8 || format == job::DType::fp8_block) {
    const Recipe cast =
        compiled ? Recipe{2 + (2 + 1), 2} : Recipe{(2 + 2) + 2 + (2 + 4) + (4 + 4) + (4 + 1), 5};
    return {cast.moved + (for_weight_grad ? 1 + 1 : 0), cast.kernels + (for_weight_grad ? 1 : 0)};
  }
  const int times = (for_weight_grad ? 1 : 0) + (for_product ? 1 : 0);
  return {times * (2 + job::bytes_per_element(format) * (1 + 1.0 / 16)), times};
}

// Scales: mxfp8 one byte for 32 elements, fp8_block four for 128, nvfp4 one for 16.
Recipe recipe_of(job::DType format, double capability, const cost::Software& software) {
  switch (format) {
    case job::DType::fp8:
      // Scaled by the tensor's maximum, which is read first. Before Blackwell products take
      // operands that lie along the sum alone, so a transposed copy is written beside.
      return {2 + 2 + (capability >= 10 ? 1.0 : 2.0), 2};
    case job::DType::fp8_block:
      return {2 + 2 * (1 + 4.0 / 128), 1};
    case job::DType::mxfp8:
      // Rows and columns by 32 elements each, beside a kernel that lays the scales out for the
      // product.
      return {software.mxfp8_cast * (2 + 2 * (1 + 1.0 / 32)), 2};
    case job::DType::nvfp4:
      // The maximum first; then rows; then columns after a random Hadamard transform.
      return {2 + 2 * (2 + 0.5 + 1.0 / 16), 3};
    default:
      return {};
  }
}

}  // namespace

bool PassBuilder::quantised(const Operator& op) const {
  return op.gemm && job::bytes_per_element(gemm_dtype_) < width_ && op.kind != OpKind::router &&
         op.kind != OpKind::batched_gemm && op.module != model::Module::head;
}

job::DType PassBuilder::product_type(const Operator& op) const {
  return quantised(op) || job::bytes_per_element(gemm_dtype_) >= width_ ? gemm_dtype_ : dtype_;
}

// Bytes of an operand's element between its cast and its product, scales included.
double PassBuilder::operand_width(const Operator& op) const {
  if (!quantised(op)) {
    return width_;
  }
  switch (gemm_dtype_) {
    case job::DType::mxfp8:
      return 1 + 1.0 / 32;
    case job::DType::nvfp4:
      return 0.5 + 1.0 / 16;
    default:
      return job::bytes_per_element(gemm_dtype_);
  }
}

// torchao's conversion goes with parameters that are sharded one by one.
bool PassBuilder::casts_twice() const {
  const auto& system = plan_.job.system;
  return system.family == job::System::Family::fsdp2 && !system.flat_parameters &&
         !system.transformer_engine;
}

void PassBuilder::cast(const std::string& label, Cast which, double elements, Category category,
                       Items& out) {
  const bool for_weight_grad = which == Cast::gradient || which == Cast::input_again;
  const Recipe recipe = casts_twice()
                            ? torchao_recipe(gemm_dtype_, plan_.job.kernels.compile,
                                             which != Cast::input_again, for_weight_grad)
                            : recipe_of(gemm_dtype_, plan_.job.cluster.device.compute_capability,
                                        context_.kernels->software());
  const auto bytes = static_cast<std::int64_t>(elements * recipe.moved / recipe.kernels);
  if (bytes <= 0) {
    return;
  }
  const cost::Priced one = context_.kernels->memory(cost::MemoryOp::elementwise, Bytes(bytes));
  Time time = one.time * recipe.kernels;
  if (gemm_dtype_ == job::DType::fp8_block && casts_twice() && for_weight_grad) {
    time = time + seconds(elements * context_.kernels->software().column_cast);
  }
  kernel(out, {time, one.curve}, recipe.kernels, category, label + " cast", kMemoryBound);
}

// Before the product: its input, unless an operator before cast the same tensor, and its share of
// the weights' cast.
void PassBuilder::cast_input(std::size_t i, Category category, Items& out) {
  const Operator& op = graph_.operators[i];
  if (!quantised(op)) {
    return;
  }
  const model::Gemm& g = *op.gemm;
  // Shards are cast before they are gathered.
  const bool gathered = tensor_ > 1 && sequence_parallel_ && op.tensor == model::TensorRole::column;
  if (!reads_as_before(i)) {
    cast(op.name + " input", Cast::input,
         static_cast<double>(g.m * g.k * g.batch) / (gathered ? tensor_ : 1), category, out);
  }
  if (category == Category::compute) {
    cast(op.name + " weight", Cast::weight,
         static_cast<double>(g.k * g.n * g.batch) / std::max(1, plan_.micro_batches), category,
         out);
  }
}

// Before the gradients' products: the output's gradient.
void PassBuilder::cast_gradient(std::size_t i, Items& out) {
  const Operator& op = graph_.operators[i];
  if (!quantised(op)) {
    return;
  }
  const model::Gemm& g = *op.gemm;
  const bool gathered = tensor_ > 1 && sequence_parallel_ && op.tensor == model::TensorRole::row;
  cast(op.name + " grad", Cast::gradient,
       static_cast<double>(g.m * g.n * g.batch) / (gathered ? tensor_ : 1), Category::compute, out);
  if (casts_twice() && !reads_as_before(i)) {
    cast(op.name + " input again", Cast::input_again, static_cast<double>(g.m * g.k * g.batch),
         Category::compute, out);
  }
}

// An earlier product of the graph has the same input.
bool PassBuilder::reads_as_before(std::size_t i) const {
  const auto input_of = [](const Operator& op) -> const model::Saved* {
    for (const model::Saved& saved : op.saved) {
      if (saved.name == "input") {
        return &saved;
      }
    }
    return nullptr;
  };
  const model::Saved* input = input_of(graph_.operators[i]);
  for (std::size_t j = 0; input != nullptr && j < i; ++j) {
    const model::Saved* other = input_of(graph_.operators[j]);
    if (other != nullptr && quantised(graph_.operators[j]) && other->storage == input->storage) {
      return true;
    }
  }
  return false;
}

}  // namespace stepcast::lower
