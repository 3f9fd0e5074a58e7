// One memory-bound kernel on buffers of its own, as training frameworks run it. What counts as
// `bytes` (e: bytes of an element, n: elements of the output, h: width of a row):
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
// Scratch (the partial sums of dweight) is not counted: it stays in L2. Sizes are met within one
// row, or 16 bytes a tensor.
#pragma once

#include <cstdint>
#include <memory>

#include "bench.h"

namespace stepcast::harness::cuda {

class MemoryKernel {
 public:
  // Buffers larger than L2 in turns, of random numbers. Throws Unsupported.
  MemoryKernel(Context& context, const interop::MemoryCase& what);
  ~MemoryKernel();
  MemoryKernel(const MemoryKernel&) = delete;
  MemoryKernel& operator=(const MemoryKernel&) = delete;

  // Enqueues one call on the context's stream; `rotate` picks the buffers.
  void launch(int rotate = 0);
  std::int64_t bytes() const;  // as counted above, of the shape that was chosen

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stepcast::harness::cuda
