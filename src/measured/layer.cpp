#include <algorithm>
#include <utility>

#include "stepcast/measured/kernels.h"
#include "stepcast/strategy/rules.h"

namespace stepcast::measured {
namespace {

using interop::GemmCase;
using interop::GemmLayout;
using interop::LayerCase;
using job::DType;
using model::Operator;
using model::OpKind;

DType activation_type(DType dtype) {  // the same rule as in model::style_of
  switch (dtype) {
    case DType::fp32:
    case DType::tf32:
      return DType::fp32;
    case DType::fp16:
      return DType::fp16;
    default:
      return DType::bf16;
  }
}

// The measured kernel that moves memory as this operator does.
const char* memory_kernel(OpKind kind) {
  switch (kind) {
    case OpKind::norm:
      return "norm";
    case OpKind::activation:
      return "activation";
    case OpKind::permute:
    case OpKind::fused_permute:
    case OpKind::embedding:
      return "copy";
    case OpKind::cross_entropy:
      return "cross_entropy";
    default:
      return "add";
  }
}

// The smallest size that the harness accepts; below it all kernels take the same time.
constexpr std::int64_t kMinBytes = 1024;

class Plan {
 public:
  explicit Plan(const LayerCase& what) : what_(what), activations_(activation_type(what.dtype)) {}

  void product(const Operator& op, GemmLayout layout) {
    const model::Gemm& g = *op.gemm;
    GemmCase c;
    c.dtype = op.kind == OpKind::gemm || op.kind == OpKind::grouped_gemm ? what_.dtype
                                                                         : product_activations();
    c.layout = layout;
    switch (layout) {
      case GemmLayout::forward:
        c.m = g.m, c.n = g.n, c.k = g.k;
        break;
      case GemmLayout::input_grad:
        c.m = g.m, c.n = g.k, c.k = g.n;
        break;
      case GemmLayout::weight_grad:
        c.m = g.k, c.n = g.n, c.k = g.m;
        break;
    }
    if (op.kind == OpKind::grouped_gemm) {
      c.groups = static_cast<int>(g.batch);
    } else {
      c.batch = g.batch;
    }
    kernels.push_back({c, 1});
  }

  void attention(const Operator& op, bool backward) {
    const model::AttentionShape& a = *op.attention;
    interop::AttentionCase c;
    c.dtype = activations_;
    c.sequences = a.sequences;
    c.length = a.query_length;
    c.heads = a.heads;
    c.kv_heads = a.kv_heads;
    c.head_dim = a.qk_dim;
    c.causal = a.causal;
    c.backward = backward;
    kernels.push_back({c, 1});
  }

  void memory(const Operator& op, bool backward) {
    const std::int64_t moved = (backward ? op.backward_moved : op.forward_moved).count();
    int launches = backward ? op.backward_kernels : op.forward_kernels;
    if (moved <= 0 || launches <= 0) {
      return;
    }
    interop::MemoryCase c;
    c.op = memory_kernel(op.kind);
    c.dtype = activations_;
    c.backward = backward && (op.kind == OpKind::norm || op.kind == OpKind::activation ||
                              op.kind == OpKind::cross_entropy);
    if (backward && op.kind == OpKind::norm) {
      // The graph counts a kernel each for the gradients of input and weight; the measured kernel
      // computes both.
      launches = std::max(1, launches / 2);
    }
    c.bytes = std::max(moved / launches, kMinBytes);
    kernels.push_back({c, launches});
  }

  std::vector<LayerKernel> kernels;

 private:
  DType product_activations() const {
    return what_.dtype == DType::tf32 ? DType::tf32 : activations_;
  }

  const LayerCase& what_;
  DType activations_;
};

}  // namespace

std::variant<std::vector<LayerKernel>, Infeasible> layer_kernels(const job::Model& model,
                                                                 const LayerCase& what) {
  model::Shard shard;
  shard.sequences = what.sequences;
  shard.sequence_length = what.length;
  shard.tensor = what.tensor;
  if (what.sequences < 1 || what.length < 1 || what.tensor < 1) {
    return Infeasible{"layer", "a layer without tokens or without ranks"};
  }
  if (const auto why = strategy::shard_fault(model, shard)) {
    return *why;
  }
  model::Style style;
  style.dtype = activation_type(what.dtype);
  style.attention = job::AttentionKernel::cudnn;
  const model::OperatorGraph graph =
      model::build_layer(model, model::layer_kind(model, model.layers - 1), shard, style);

  for (const Operator& op : graph.operators) {
    if (op.attention && op.attention->qk_dim != op.attention->v_dim) {
      return Infeasible{"layer", "attention whose queries and values differ in size"};
    }
  }
  Plan plan(what);
  if (!what.backward) {
    for (const Operator& op : graph.operators) {
      if (op.gemm) {
        plan.product(op, GemmLayout::forward);
      } else if (op.attention) {
        plan.attention(op, false);
      } else {
        plan.memory(op, false);
      }
    }
    return std::move(plan.kernels);
  }
  for (auto op = graph.operators.rbegin(); op != graph.operators.rend(); ++op) {
    if (op->gemm) {
      plan.product(*op, GemmLayout::input_grad);
      plan.product(*op, GemmLayout::weight_grad);
    } else if (op->attention) {
      plan.attention(*op, true);
    } else {
      plan.memory(*op, true);
    }
  }
  return std::move(plan.kernels);
}

}  // namespace stepcast::measured
