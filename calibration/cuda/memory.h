// One memory-bound kernel on buffers of its own, as training frameworks run it; its tensors and
// what counts as bytes: memory_shape.h.
#pragma once

#include <cstdint>
#include <memory>

#include "bench.h"

namespace stepcast::harness::cuda {

class MemoryKernel {
 public:
  // Buffers in turns, together larger than L2, of random numbers. Throws Unsupported.
  MemoryKernel(Context& context, const interop::MemoryCase& what);
  ~MemoryKernel();
  MemoryKernel(const MemoryKernel&) = delete;
  MemoryKernel& operator=(const MemoryKernel&) = delete;

  // Enqueues one call on the context's stream; `rotate` picks the buffers.
  void launch(int rotate = 0);
  std::int64_t bytes() const;  // read and written by the shape that was chosen

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stepcast::harness::cuda
