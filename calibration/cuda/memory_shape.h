// The tensors that a memory-bound case stands for. What counts as `bytes` (e: bytes of an element,
// n: elements of the output, h: width of a row):
//   copy           y = x                                     2 n e
//   add            z = x + y                                 3 n e
//   norm           RMSNorm: x, weight -> y, 1/rms            2 n e + 4 rows + h e
//     backward     dy, x, 1/rms, weight -> dx, dweight       3 n e + 4 rows + 2 h e
//   activation     SwiGLU: gate, up -> y                     3 n e
//     backward     gate, up, dy -> dgate, dup                5 n e
//   cross_entropy  logits, labels -> loss, log-sum-exp       n e + 16 rows (h: the vocabulary)
//     backward     logits, labels, log-sum-exp -> dlogits    2 n e + 12 rows
//   optimizer      Adam: gradient, master, m, v (fp32) -> master, m, v and parameter: 28 + e a
//                  parameter (28 where the parameter is fp32: the master is the parameter)
// Scratch (the partial sums of dweight) is not counted: it stays in L2.
#pragma once

#include <cstddef>
#include <cstdint>

#include "stepcast/interop/gpu_measurements.h"

namespace stepcast::harness::cuda {

inline constexpr std::int64_t kSmallestMemoryCase = 1024;  // bytes

struct RowShape {
  std::size_t rows = 0;
  int width = 0;
};

struct MemoryShape {
  std::size_t elements = 0;  // elements of the output
  RowShape rows;             // for norm, activation and cross_entropy
  // Bytes read and written; it differs from what.bytes by less than a row, or by 16 per tensor.
  std::int64_t moved = 0;
};

// Throws Unsupported for an operation, direction, type or size that is not measured.
MemoryShape memory_shape(const interop::MemoryCase& what);

}  // namespace stepcast::harness::cuda
