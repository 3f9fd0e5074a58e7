// One memory-bound kernel on its own buffers, as training frameworks run it. memory_shape.h defines
// its tensors and which bytes count.
#pragma once

#include <cstdint>
#include <memory>

#include "bench.h"

namespace stepcast::harness::cuda {

class MemoryKernel {
 public:
  // Allocates buffers of random numbers that are used in turn and are together larger than L2.
  // Throws Unsupported.
  MemoryKernel(Context& context, const interop::MemoryCase& what);
  ~MemoryKernel();
  MemoryKernel(const MemoryKernel&) = delete;
  MemoryKernel& operator=(const MemoryKernel&) = delete;

  // Enqueues one call on the context's stream; `rotate` selects the buffers.
  void launch(int rotate = 0);
  std::int64_t bytes() const;  // bytes read and written with the chosen shape

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stepcast::harness::cuda
