// How the rows of a product's operands and of its result are aligned. Kernels that load tiles by
// Hopper's TMA, and those that load 16 bytes a thread, need every row to start at a multiple of 16
// bytes; others load fewer bytes at a time and run at a fraction of the rate.
#pragma once

#include <algorithm>
#include <cstdint>

#include "stepcast/cost/kernels.h"

namespace stepcast::cost {

constexpr int kRowAlignment = 16;  // bytes

// Bytes, a power of two of at most 16. `element`: bytes of an element of the operands. The rows are
// along n and k, in a weight gradient (whose k are the tokens) along m and n.
inline int row_alignment(const model::Gemm& g, Layout layout, double element) {
  const auto of = [element](std::int64_t length) {
    const auto bytes = static_cast<std::int64_t>(static_cast<double>(length) * element);
    return static_cast<int>(std::min<std::int64_t>(kRowAlignment, bytes & -bytes));
  };
  return std::min(of(g.n), of(layout == Layout::weight_grad ? g.m : g.k));
}

}  // namespace stepcast::cost
