// cublasLt: its handles, its descriptors and its choice of a kernel. Descriptors need no device.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <memory>
#include <type_traits>

#include "gemm_layout.h"

namespace stepcast::harness::cuda {

// Throws Unsupported if the library does not have the product, and std::runtime_error for other
// failures.
void check(cublasStatus_t status, const char* what);

// One handle for each GPU. It is made on first use, with that GPU current, and kept until the
// program ends.
cublasLtHandle_t library_handle(int gpu);

// The workspace that PyTorch and Transformer Engine give cuBLAS: 32 MiB from Hopper on; before that
// :4096:2:16:8. hipBLASLt gets 128 MiB.
std::size_t workspace_bytes(const GpuTarget& target);

cudaDataType_t data_type(job::DType storage, const GpuTarget& target);

// One product: all arguments of cublasLtMatmul except pointers.
class GemmDescription {
 public:
  GemmDescription(const interop::GemmCase& what, const GemmView& view, const GpuTarget& target);

  // Sets device pointers to the scale factors; null: no scales.
  void set_scales(const void* a, const void* b);

  // Returns the heuristic's first result, which frameworks use as well. Throws Unsupported.
  cublasLtMatmulAlgo_t choose(cublasLtHandle_t handle, std::size_t workspace) const;

  // Computes D = A B, or D += A B if the case accumulates.
  void run(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algorithm, const void* a,
           const void* b, void* d, void* workspace, std::size_t workspace_size,
           cudaStream_t stream) const;

  cublasLtMatmulDesc_t operation() const { return operation_.get(); }
  cublasLtMatrixLayout_t a() const { return a_.get(); }
  cublasLtMatrixLayout_t b() const { return b_.get(); }
  cublasLtMatrixLayout_t d() const { return d_.get(); }

 private:
  struct Destroy {
    void operator()(cublasLtMatmulDesc_t p) const { cublasLtMatmulDescDestroy(p); }
    void operator()(cublasLtMatrixLayout_t p) const { cublasLtMatrixLayoutDestroy(p); }
  };
  template <typename Pointer>
  using Owned = std::unique_ptr<std::remove_pointer_t<Pointer>, Destroy>;
  static Owned<cublasLtMatrixLayout_t> layout(cudaDataType_t type, const MatrixView& matrix,
                                              std::int64_t batch);

  Owned<cublasLtMatmulDesc_t> operation_;
  Owned<cublasLtMatrixLayout_t> a_, b_, d_;  // C is D
  bool accumulate_ = false;
};

}  // namespace stepcast::harness::cuda
