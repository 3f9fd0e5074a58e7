// Grouped GEMM of experts as Transformer Engine's GroupedLinear, and so Megatron's
// --moe-grouped-gemm, runs it: one cublasLt product for each group, dealt out in turn to four
// streams that fork from the caller's and join it again (NVTE's num_streams).
//
// That is what is measured, for every type and pass, rather than cublasGemmGroupedBatchedEx: no
// training framework calls that, and it takes neither fp8 nor an fp32 result of 16-bit operands.
//
// The products are captured into a CUDA graph, so the time is the device's: hosts that cannot issue
// a launch within a small expert's time are priced by the launch figures, not here.
#pragma once

#include <memory>
#include <vector>

#include "gemm_library.h"
#include "gemm_operands.h"

namespace stepcast::harness::cuda {

class GroupedGemm {
 public:
  GroupedGemm(Context& context, const GemmDescription& description,
              const cublasLtMatmulAlgo_t& algorithm, const GemmOperands& operands, int groups,
              std::size_t workspace);
  ~GroupedGemm();
  GroupedGemm(const GroupedGemm&) = delete;
  GroupedGemm& operator=(const GroupedGemm&) = delete;

  void launch(int copy);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stepcast::harness::cuda
