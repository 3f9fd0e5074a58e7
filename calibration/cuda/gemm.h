// One matrix product by cublasLt on its own operands.
#pragma once

#include <cstdint>
#include <memory>

#include "bench.h"

namespace stepcast::harness::cuda {

class Gemm {
 public:
  // `copies` is the number of operand sets to rotate through; 0: as many as keep them out of L2. A
  // case of several groups runs all of them in one launch (grouped.h). Throws Unsupported.
  Gemm(Context& context, const interop::GemmCase& what, int copies = 0, std::uint64_t seed = 1);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  // Enqueues one call on the context's stream; `rotate` selects the operands.
  void launch(int rotate = 0);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stepcast::harness::cuda
