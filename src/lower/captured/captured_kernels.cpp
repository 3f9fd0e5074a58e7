// Prices of captured operators.
#include <algorithm>
#include <cmath>
#include <string_view>

#include "captured_draft.h"
#include "stepcast/cost/kernels.h"

namespace stepcast::lower {
namespace {

using capture::Phase;
using cost::MemoryOp;

// Kinds of memory-bound operators by a part of their name; the first that matches holds.
struct NamedKind {
  std::string_view part;
  MemoryOp kind;
};
constexpr NamedKind kKinds[] = {{"fused_adam", MemoryOp::optimizer},
                                {"log_softmax", MemoryOp::cross_entropy},
                                {"nll_loss", MemoryOp::cross_entropy},
                                {"cross_entropy", MemoryOp::cross_entropy},
                                {"linalg_vector_norm", MemoryOp::elementwise},
                                {"foreach_norm", MemoryOp::elementwise},
                                {"norm", MemoryOp::norm},
                                {"softmax", MemoryOp::softmax},
                                {"silu", MemoryOp::activation},
                                {"gelu", MemoryOp::activation},
                                {"glu", MemoryOp::activation},
                                {"relu", MemoryOp::activation},
                                {"dropout", MemoryOp::dropout},
                                {"embedding", MemoryOp::embedding},
                                {"index", MemoryOp::permute},
                                {"gather_copy_in", MemoryOp::copy},
                                {"gather", MemoryOp::permute},
                                {"scatter", MemoryOp::permute},
                                {"permute", MemoryOp::permute},
                                {"sort", MemoryOp::permute},
                                {"copy", MemoryOp::copy},
                                {"clone", MemoryOp::copy},
                                {"cat", MemoryOp::copy},
                                {"contiguous", MemoryOp::copy},
                                {"zero", MemoryOp::copy},
                                {"fill", MemoryOp::copy}};

MemoryOp kind_of(const capture::Operator& op, Phase phase) {
  if (phase == Phase::optimizer) {
    return MemoryOp::optimizer;
  }
  const auto* const found =
      std::find_if(std::begin(kKinds), std::end(kKinds),
                   [&](const NamedKind& k) { return op.name.find(k.part) != std::string::npos; });
  return found == std::end(kKinds) ? MemoryOp::elementwise : found->kind;
}

CapturedKernel product(const CapturedDraft& w, const capture::Product& p, DType type,
                       double relief) {
  cost::GemmQuery query;
  query.shape = {p.m, p.n, p.k, p.batch};
  query.dtype = type;
  query.operands_cast = true;
  query.pace = cost::Pace::training;
  query.relief = relief;
  if (p.a_transposed) {  // the gradient of a weight; curves take its rows as columns
    query.layout = cost::Layout::weight_grad;
    std::swap(query.shape.m, query.shape.n);
  } else {
    query.layout = p.b_transposed ? cost::Layout::forward : cost::Layout::input_grad;
  }
  const double flops = 2.0 * static_cast<double>(p.batch) * static_cast<double>(p.m) *
                       static_cast<double>(p.n) * static_cast<double>(p.k);
  // Of vectors: each element of the largest operand meets one of another, two FLOPs for each, so
  // that memory bounds the product on any device. Curves were measured on matrices.
  if (!p.grouped && std::min({p.m, p.n, p.k}) == 1) {
    const std::int64_t elements = p.batch * (p.m * p.k + p.k * p.n + p.m * p.n);
    const auto bytes = static_cast<std::int64_t>(
        std::ceil(static_cast<double>(elements) * bytes_per_element(type)));
    return {w.kernels.memory(MemoryOp::elementwise, Bytes(bytes)), kCapturedMemory, flops};
  }
  if (!p.grouped) {
    return {w.kernels.gemm(query), kCapturedArithmetic, flops};
  }
  query.shape.batch = 1;
  return {w.kernels.grouped_gemm(query, static_cast<int>(p.batch)), kCapturedArithmetic, flops};
}

// The recorded kernel, or the one that PyTorch takes in its place on this device.
AttentionKernel kernel_of(const CapturedDraft& w, const capture::Attention& a) {
  const hardware::Device& device = w.topology.device(0);
  AttentionKernel kernel = a.kernel;
  if (kernel == AttentionKernel::cudnn && !hardware::prefers_cudnn_attention(device)) {
    kernel = AttentionKernel::flash2;
  }
  const bool lacks = device.compute_capability > 0 &&
                     device.compute_capability < hardware::least_compute_capability(kernel);
  return lacks ? AttentionKernel::efficient : kernel;
}

CapturedKernel attention(const CapturedDraft& w, const capture::Attention& a, DType type,
                         double relief) {
  cost::AttentionQuery query;
  query.shape.sequences = a.sequences;
  query.shape.query_length = a.query_length;
  query.shape.key_length = a.key_length;
  query.shape.heads = static_cast<int>(a.heads);
  query.shape.kv_heads = static_cast<int>(a.kv_heads);
  query.shape.qk_dim = static_cast<int>(a.qk_dim);
  query.shape.v_dim = static_cast<int>(a.v_dim);
  query.shape.causal = a.causal;
  query.kernel = kernel_of(w, a);
  query.dtype = type;
  query.backward = a.backward;
  query.training = true;
  query.relief = relief;
  // Two products a pair of query and key forward; their four gradients backward, and the scores
  // again.
  const double forward = 2 * model::attention_pairs(query.shape) *
                         static_cast<double>(a.sequences * a.heads) *
                         static_cast<double>(a.qk_dim + a.v_dim);
  return {w.kernels.attention(query), kCapturedArithmetic, a.backward ? 2 * forward : forward};
}

CapturedKernel price(const CapturedDraft& w, const capture::Operator& op, Phase phase, int launches,
                     double load, double relief) {
  const DType type = captured_type(op.type);
  const double rows = op.routed == capture::Routed::none ? 1 : load;
  if (op.product) {
    capture::Product p = *op.product;
    std::int64_t& routed = op.routed == capture::Routed::sum ? p.k : p.m;
    routed = loaded(routed, rows);
    return product(w, p, type, relief);
  }
  if (op.attention) {
    return attention(w, *op.attention, type, relief);
  }
  const bool backward = phase == Phase::backward && op.name.find("backward") != std::string::npos;
  return {w.kernels.memory_operator(kind_of(op, phase), Bytes(loaded(op.bytes, rows)), launches,
                                    backward),
          kCapturedMemory, 0};
}

// What the model computes, as in jobs: not the copies around collectives, nor clipping.
bool of_model(const capture::Operator& op) {
  return op.name.starts_with("aten.") && !op.name.starts_with("aten._foreach");
}

}  // namespace

DType captured_type(const std::string& type) {
  return type == "float32"            ? DType::fp32
         : type == "float16"          ? DType::fp16
         : type.starts_with("float8") ? DType::fp8
                                      : DType::bf16;
}

CapturedKernel price_captured(CapturedDraft& w, const capture::Operator& op, Phase phase,
                              int launches, double load, double relief) {
  CapturedKernel out = price(w, op, phase, launches, load, relief);
  if (!op.product && !op.attention && kind_of(op, phase) == MemoryOp::elementwise) {
    w.by_bytes[op.name] += out.priced.time;
  }
  return out;
}

double captured_relief(const CapturedDraft& w, const capture::Rank& rank, double load) {
  if (w.kernels.relief(Time{1}, Time{1}) == 1) {  // of a device where no mixture raises it
    return 1;
  }
  Time products{0};
  Time others{0};
  for (const capture::Task& t : rank.tasks) {
    if (t.kind != capture::TaskKind::kernel || t.operator_number < 0 ||
        (t.phase != Phase::forward && t.phase != Phase::backward)) {
      continue;
    }
    const capture::Operator& op = rank.operators[static_cast<std::size_t>(t.operator_number)];
    // Attention whose draw is not known gives nothing and takes nothing.
    if (!of_model(op) || (op.attention && !w.kernels.power_bound(kernel_of(w, *op.attention)))) {
      continue;
    }
    const CapturedKernel k = price(w, op, t.phase, t.launches, load, 1);
    (k.slowdown == kCapturedArithmetic ? products : others) += k.priced.time;
  }
  return w.kernels.relief(products, others);
}

}  // namespace stepcast::lower
