#include "attention_graph.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <limits>

namespace stepcast::harness::cuda {
namespace {

using Tensor = CudnnGraph::Tensor;

cudnnDataType_t data_type(job::DType dtype) {
  switch (dtype) {
    case job::DType::bf16:
      return CUDNN_DATA_BFLOAT16;
    case job::DType::fp16:
      return CUDNN_DATA_HALF;
    default:
      throw Unsupported(
          fmt::format("fused attention runs in bf16 and fp16, not {}", job::to_string(dtype)));
  }
}

Dims swapped(const Dims& d) { return {d[0], d[1], d[3], d[2]}; }

// Builds the graph for one pass of one case.
class Builder {
 public:
  Builder(const interop::AttentionCase& what, AttentionGraph& result)
      : what_(what),
        result_(result),
        type_(data_type(what.dtype)),
        queries_{what.sequences, what.heads, what.length, what.head_dim},
        keys_{what.sequences, what.kv_heads, what.length, what.head_dim},
        scores_{what.sequences, what.heads, what.length, what.length},
        rows_{what.sequences, what.heads, what.length, 1} {}

  void forward();
  void backward();

 private:
  CudnnGraph& graph() { return result_.operations; }
  // [sequence, position, head, element] in memory.
  static Dims interleaved(const Dims& d) { return {d[1] * d[2] * d[3], d[3], d[1] * d[3], 1}; }

  Tensor memory(std::int64_t uid, const Dims& dims) {
    result_.tensors.push_back(uid);
    return graph().tensor(uid, dims, interleaved(dims), type_);
  }
  Tensor transposed(std::int64_t uid, const Dims& dims) {
    result_.tensors.push_back(uid);
    return graph().tensor(uid, swapped(dims), swapped(interleaved(dims)), type_);
  }
  Tensor stats() {
    result_.tensors.push_back(kStats);
    return graph().tensor(kStats, rows_, packed(rows_), CUDNN_DATA_FLOAT);
  }
  Tensor value(std::int64_t uid) {
    result_.values.push_back(uid);
    return graph().value(uid);
  }
  Tensor scratch(std::int64_t uid, const Dims& dims, const Dims& strides, cudnnDataType_t type,
                 bool zeroed) {
    const std::int64_t size = type == CUDNN_DATA_FLOAT ? 4 : 2;
    result_.scratch.push_back({uid, dims[0] * dims[1] * dims[2] * dims[3] * size, zeroed});
    return graph().tensor(uid, dims, strides, type);
  }

  // Q K^T, scaled and masked.
  Tensor scores(const Tensor& q, const Tensor& k, const Tensor& scale);

  const interop::AttentionCase& what_;
  AttentionGraph& result_;
  cudnnDataType_t type_;
  Dims queries_, keys_, scores_, rows_;
};

Tensor Builder::scores(const Tensor& q, const Tensor& k, const Tensor& scale) {
  const Tensor product = graph().inner(scores_);
  graph().matmul(q, k, product);
  const Tensor scaled = graph().inner(scores_);
  graph().pointwise(CUDNN_POINTWISE_MUL, product, scale, scaled);
  if (!what_.causal) {
    return scaled;
  }
  const Tensor row = graph().inner(scores_, CUDNN_DATA_INT32);
  graph().index(2, scaled, row);
  const Tensor column = graph().inner(scores_, CUDNN_DATA_INT32);
  graph().index(3, scaled, column);
  const Tensor seen = graph().inner(scores_, CUDNN_DATA_BOOLEAN);
  graph().pointwise(CUDNN_POINTWISE_CMP_GE, row, column, seen, CUDNN_DATA_BOOLEAN);
  const Tensor masked = graph().inner(scores_);
  graph().select(seen, scaled, value(kMaskedOut), masked);
  return masked;
}

void Builder::forward() {
  const Tensor q = memory(kQ, queries_);
  const Tensor k = transposed(kK, keys_);
  const Tensor v = memory(kV, keys_);
  const Tensor o = memory(kO, queries_);
  const Tensor log_sum = stats();
  const Tensor score = scores(q, k, value(kScale));

  const Tensor highest = graph().inner(rows_);
  graph().reduce(CUDNN_REDUCE_TENSOR_MAX, score, highest);
  const Tensor relative = graph().inner(scores_);
  graph().pointwise(CUDNN_POINTWISE_SUB, score, highest, relative);
  const Tensor exponential = graph().inner(scores_);
  graph().pointwise(CUDNN_POINTWISE_EXP, relative, exponential);
  const Tensor sum = graph().inner(rows_);
  graph().reduce(CUDNN_REDUCE_TENSOR_ADD, exponential, sum);
  const Tensor logarithm = graph().inner(rows_);
  graph().pointwise(CUDNN_POINTWISE_LOG, sum, logarithm);
  graph().pointwise(CUDNN_POINTWISE_ADD, highest, logarithm, log_sum);
  const Tensor probability = graph().inner(scores_, type_);
  graph().pointwise(CUDNN_POINTWISE_DIV, exponential, sum, probability);
  graph().matmul(probability, v, o);
}

void Builder::backward() {
  const bool grouped = what_.heads != what_.kv_heads;
  const Tensor q = memory(kQ, queries_);
  const Tensor k_columns = transposed(kK, keys_);
  const Tensor v_columns = transposed(kV, keys_);
  const Tensor o = memory(kO, queries_);
  const Tensor grad_o = memory(kGradO, queries_);
  const Tensor log_sum = stats();
  const Tensor scale = value(kScale);

  // Row sums of dO * O.
  const Tensor product = graph().inner(queries_);
  graph().pointwise(CUDNN_POINTWISE_MUL, grad_o, o, product);
  const Tensor unscaled = graph().inner(rows_);
  graph().reduce(CUDNN_REDUCE_TENSOR_ADD, product, unscaled);
  const Tensor row_sum = scratch(kRowSum, rows_, packed(rows_), CUDNN_DATA_FLOAT, false);
  graph().pointwise(CUDNN_POINTWISE_MUL, unscaled, value(kOne), row_sum);

  // P is recomputed from the scores and their log-sum-exp.
  const Tensor score = scores(q, k_columns, scale);
  const Tensor relative = graph().inner(scores_);
  graph().pointwise(CUDNN_POINTWISE_SUB, score, log_sum, relative);
  const Tensor probability = graph().inner(scores_);
  graph().pointwise(CUDNN_POINTWISE_EXP, relative, probability);

  // dV = P^T dO.
  const Tensor probability_low = graph().inner(scores_, type_);
  graph().pointwise(CUDNN_POINTWISE_IDENTITY, probability, probability_low);
  const Tensor probability_t = graph().inner(swapped(scores_), swapped(packed(scores_)), type_);
  graph().reshape(probability_low, probability_t);
  const Dims full = {what_.sequences, what_.heads, what_.length, what_.head_dim};
  const auto key_gradient = [&](std::int64_t uid, std::int64_t full_uid, const Tensor& a,
                                const Tensor& b) {
    const Tensor gradient = memory(uid, keys_);
    if (!grouped) {
      graph().matmul(a, b, gradient);
      return;
    }
    const Tensor every = scratch(full_uid, full, interleaved(full), type_, false);
    graph().matmul(a, b, every);
    graph().reduce(CUDNN_REDUCE_TENSOR_ADD, every, gradient);
  };
  key_gradient(kGradV, kFullGradV, probability_t, grad_o);

  // dS = P (dP - row sum) scale with dP = dO V^T.
  const Tensor grad_p = graph().inner(scores_);
  graph().matmul(grad_o, v_columns, grad_p);
  const Tensor centred = graph().inner(scores_);
  graph().pointwise(CUDNN_POINTWISE_SUB, grad_p, row_sum, centred);
  const Tensor weighted = graph().inner(scores_);
  graph().pointwise(CUDNN_POINTWISE_MUL, centred, probability, weighted);
  const Tensor grad_s = graph().inner(scores_, type_);
  graph().pointwise(CUDNN_POINTWISE_MUL, weighted, scale, grad_s);

  // dK = dS^T Q, dQ = dS K.
  const Tensor grad_s_t = graph().inner(swapped(scores_), swapped(packed(scores_)), type_);
  graph().reshape(grad_s, grad_s_t);
  key_gradient(kGradK, kFullGradK, grad_s_t, q);
  const Tensor k = graph().inner(keys_, interleaved(keys_), type_);
  graph().reshape(k_columns, k);
  const Tensor grad_q = memory(kGradQ, queries_);
  const Tensor grad_q_sum =
      scratch(kGradQSum, queries_, interleaved(queries_), CUDNN_DATA_FLOAT, true);
  graph().matmul(grad_s, k, grad_q_sum);
  graph().pointwise(CUDNN_POINTWISE_IDENTITY, grad_q_sum, grad_q);
}

}  // namespace

std::int64_t attention_elements(const interop::AttentionCase& what, std::int64_t uid) {
  const std::int64_t positions = what.sequences * what.length;
  switch (uid) {
    case kK:
    case kV:
    case kGradK:
    case kGradV:
      return positions * what.kv_heads * what.head_dim;
    case kStats:
      return positions * what.heads;
    default:
      return positions * what.heads * what.head_dim;
  }
}

float attention_value(const interop::AttentionCase& what, std::int64_t uid) {
  switch (uid) {
    case kScale:
      return 1.0f / std::sqrt(static_cast<float>(what.head_dim));
    case kMaskedOut:
      return std::numeric_limits<float>::lowest();
    default:
      return 1.0f;
  }
}

AttentionGraph plan_attention(const interop::AttentionCase& what, const CudnnDevice& device) {
  if (what.sequences < 1 || what.length < 1 || what.kv_heads < 1 || what.head_dim < 8 ||
      what.head_dim % 8 != 0 || what.heads % what.kv_heads != 0) {
    throw Unsupported("attention of this shape");
  }
  AttentionGraph result;
  Builder builder(what, result);
  if (what.backward) {
    builder.backward();
  } else {
    builder.forward();
  }
  result.graph = result.operations.finalize(device);
  result.plan = compile(result.graph, device);
  return result;
}

}  // namespace stepcast::harness::cuda
