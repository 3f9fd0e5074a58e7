// The memory-bound kernels behind MemoryKernel. Each function enqueues on `stream` and checks the
// launch. Rows and element counts are multiples of 16 bytes; pointers are aligned to 16 bytes.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "memory_shape.h"
#include "stepcast/job/job.h"

namespace stepcast::harness::cuda {

struct Launch {
  cudaStream_t stream = nullptr;
  int sms = 0;
  job::DType dtype = job::DType::bf16;  // bf16, fp16 or fp32
};

void enqueue_copy(const Launch&, const void* x, void* y, std::size_t elements);
void enqueue_add(const Launch&, const void* x, const void* y, void* z, std::size_t elements);
// Each row has `shape.width` gate values and then `shape.width` up values: [rows, 2 width], the
// result of one fused GEMM.
void enqueue_swiglu(const Launch&, const void* gate_up, void* y, RowShape shape);
void enqueue_swiglu_backward(const Launch&, const void* gate_up, const void* dy, void* dgate_up,
                             RowShape shape);

inline constexpr int kMaxNormWidth = 8192;
void enqueue_rms_norm(const Launch&, const void* x, const void* weight, void* y, float* inverse_rms,
                      RowShape shape);
// Number of rows of `partial` (fp32, shape.width wide) that the backward pass needs.
int norm_partial_rows(const Launch&, RowShape shape);
void enqueue_rms_norm_backward(const Launch&, const void* dy, const void* x, const void* weight,
                               const float* inverse_rms, void* dx, void* dweight, float* partial,
                               RowShape shape);

void enqueue_labels(const Launch&, std::int64_t* labels, RowShape shape);
void enqueue_cross_entropy(const Launch&, const void* logits, const std::int64_t* labels,
                           float* loss, float* log_sum, RowShape shape);
void enqueue_cross_entropy_backward(const Launch&, const void* logits, const std::int64_t* labels,
                                    const float* log_sum, void* dlogits, RowShape shape);

void enqueue_square(const Launch&, float* x, std::size_t elements);
// Adam over `elements` contiguous parameters, split into tensors of at most `tensor_elements`;
// `parameter` is null if the master is the parameter itself.
void enqueue_adam(const Launch&, const float* gradient, float* master, float* m, float* v,
                  void* parameter, std::size_t elements, std::size_t tensor_elements);

}  // namespace stepcast::harness::cuda
