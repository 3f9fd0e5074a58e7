#include "gpu_layers.h"

#include <algorithm>
#include <string>

#include "stepcast/base/diagnostics.h"
#include "stepcast/config/config.h"
#include "stepcast/model/operators.h"

namespace stepcast::calibrate {
namespace {

using interop::LayerCase;

cost::MemoryOp memory_op(model::OpKind kind) {
  using model::OpKind;
  switch (kind) {  // as lower prices them
    case OpKind::norm:
      return cost::MemoryOp::norm;
    case OpKind::softmax:
      return cost::MemoryOp::softmax;
    case OpKind::activation:
      return cost::MemoryOp::activation;
    case OpKind::dropout:
    case OpKind::residual:
      return cost::MemoryOp::dropout;
    case OpKind::embedding:
      return cost::MemoryOp::embedding;
    case OpKind::cross_entropy:
      return cost::MemoryOp::cross_entropy;
    case OpKind::permute:
      return cost::MemoryOp::permute;
    default:
      return cost::MemoryOp::elementwise;
  }
}

// What is kept between products whose operands are narrower (as model::style_of).
job::DType activation_type(job::DType t) {
  return t == job::DType::fp16                            ? job::DType::fp16
         : t == job::DType::fp32 || t == job::DType::tf32 ? job::DType::fp32
                                                          : job::DType::bf16;
}

// The kernels of one layer, one after another: those that the harness runs
// (calibration/cuda/layer_plan.cpp).
class LayerTime {
 public:
  LayerTime(const cost::Kernels& kernels, const LayerCase& layer, const model::OperatorGraph& graph)
      : kernels_(kernels), layer_(layer), graph_(graph) {}

  double seconds() {
    for (const model::Operator& op : graph_.operators) {
      layer_.backward ? backward(op) : forward(op);
    }
    return sum_;
  }

 private:
  void add(const cost::Priced& priced) { sum_ += to_seconds(priced.time); }
  void product(const model::Operator& op, const model::Gemm& shape, cost::Layout layout) {
    using model::OpKind;
    // Bursts: one layer is over before the power limit is felt.
    if (op.kind == OpKind::grouped_gemm) {
      add(kernels_.grouped_gemm({shape.m, shape.n, shape.k, 1}, static_cast<int>(shape.batch),
                                layer_.dtype, layout));
    } else if (op.kind == OpKind::gemm || layer_.dtype == job::DType::tf32) {
      add(kernels_.burst_gemm(shape, layer_.dtype, layout));
    } else {
      add(kernels_.burst_gemm(shape, activation_type(layer_.dtype), layout));
    }
  }
  void attention(const model::Operator& op, bool backward) {
    add(kernels_.attention(*op.attention, job::AttentionKernel::cudnn,
                           activation_type(layer_.dtype), backward));
  }
  void moved(const model::Operator& op, Bytes bytes, int launches) {
    if (bytes.count() <= 0 || launches <= 0) {
      return;
    }
    const cost::Priced one = kernels_.memory(memory_op(op.kind), Bytes(bytes.count() / launches));
    sum_ += launches * to_seconds(one.time);
  }
  void forward(const model::Operator& op) {
    if (op.gemm) {
      product(op, *op.gemm, cost::Layout::forward);
    } else if (op.attention) {
      attention(op, false);
    } else {
      moved(op, op.forward_moved, op.forward_kernels);
    }
  }
  void backward(const model::Operator& op) {
    if (op.gemm) {
      const model::Gemm& g = *op.gemm;
      product(op, {g.m, g.k, g.n, g.batch}, cost::Layout::input_grad);
      product(op, {g.k, g.n, g.m, g.batch}, cost::Layout::weight_grad);
    } else if (op.attention) {
      attention(op, true);
    } else {
      // The harness's norm makes both gradients, its input's and its weight's, in one kernel.
      const bool norm = op.kind == model::OpKind::norm;
      moved(op, op.backward_moved,
            norm ? std::max(1, op.backward_kernels / 2) : op.backward_kernels);
    }
  }

  const cost::Kernels& kernels_;
  const LayerCase& layer_;
  const model::OperatorGraph& graph_;
  double sum_ = 0;
};

}  // namespace

result::KernelLayer layer_of(const Measured& m, const LayerCase& c, const cost::Kernels& before,
                             const cost::Kernels& after) {
  result::KernelLayer out;
  out.name = interop::to_string(m.what).substr(std::string("layer ").size());
  out.measured = m.seconds;
  try {
    const job::Model model = config::model(c.model);
    model::Shard shard;
    shard.sequences = c.sequences;
    shard.sequence_length = c.length;
    shard.tensor = c.tensor;
    if (const auto why = model::check_shard(model, shard)) {
      out.why = why->reason;
      return out;
    }
    model::Style style;
    style.dtype = activation_type(c.dtype);
    style.attention = job::AttentionKernel::cudnn;
    const auto graph =
        model::build_layer(model, model::layer_kind(model, model.layers - 1), shard, style);
    out.predicted = LayerTime(after, c, graph).seconds();
    out.before = LayerTime(before, c, graph).seconds();
  } catch (const InputError& error) {
    out.why = error.faults().front().message;
  }
  return out;
}

}  // namespace stepcast::calibrate
