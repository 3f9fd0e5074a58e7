#include "memory.h"

#include <algorithm>
#include <cmath>

namespace stepcast::cost {

MemoryOp memory_op(model::OpKind kind) {
  using model::OpKind;
  switch (kind) {
    case OpKind::norm:
      return MemoryOp::norm;
    case OpKind::softmax:
      return MemoryOp::softmax;
    case OpKind::activation:
      return MemoryOp::activation;
    case OpKind::dropout:
      return MemoryOp::dropout;
    case OpKind::embedding:
      return MemoryOp::embedding;
    case OpKind::cross_entropy:
      return MemoryOp::cross_entropy;
    case OpKind::permute:
      return MemoryOp::permute;
    case OpKind::fused_permute:
      return MemoryOp::fused_permute;
    default:
      return MemoryOp::elementwise;
  }
}

namespace {

// Bytes that take as long at the rate of whole, narrow rows as these do.
double row_bytes(const MemoryPass& curve, double bytes, double row) {
  constexpr double kLoad = 128;     // elements that a warp loads at once: four a thread
  constexpr double kNarrow = 1024;  // elements of a row in 32 registers a thread
  const double registers = std::exp2(std::ceil(std::log2(row)));
  return bytes *
         (curve.moved * std::ceil(row / kLoad) * kLoad +
          curve.wide * std::max(0.0, registers - kNarrow)) /
         row;
}

}  // namespace

double memory_seconds(const MemoryPass& curve, double bandwidth, double bytes, double row) {
  if (curve.row > 0) {
    bytes = row_bytes(curve, bytes, row > 0 ? row : curve.row);
  }
  const double rate = curve.share * bandwidth;
  const double inside = std::min(bytes, curve.resident);
  const double stream = inside / (curve.gain * rate) + (bytes - inside) / rate;
  const double start =
      curve.fixed + (curve.start > 0 ? std::min(bytes, curve.start) / curve.start_rate : 0);
  if (curve.ramp == 1) {
    return start + stream;
  }
  const double longer = std::max(start, stream);
  if (longer <= 0) {
    return 0;
  }
  const double part = std::min(start, stream) / longer;
  return longer * std::pow(1 + std::pow(part, curve.ramp), 1 / curve.ramp);
}

}  // namespace stepcast::cost
