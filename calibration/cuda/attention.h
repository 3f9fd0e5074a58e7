// One pass of cuDNN's fused attention for one shape, on its own buffers.
#pragma once

#include <memory>

#include "bench.h"

namespace stepcast::harness::cuda {

class Attention {
 public:
  // Compiles the kernels (which takes seconds) and fills the buffers; a backward pass gets O and
  // the log-sum-exp of a forward pass. Throws Unsupported.
  Attention(Context& context, const interop::AttentionCase& what);
  ~Attention();
  Attention(const Attention&) = delete;
  Attention& operator=(const Attention&) = delete;

  // Enqueues one pass on the context's stream; `rotate` selects the buffers.
  void launch(int rotate = 0);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stepcast::harness::cuda
