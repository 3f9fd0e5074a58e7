#include <algorithm>

#include "bench.h"
#include "memory_rows.cuh"

namespace stepcast::harness::cuda {

void enqueue_rms_norm(const Launch& launch, const void* x, const void* weight, void* y,
                      float* inverse_rms, RowShape shape) {
  with_type(launch.dtype, [&]<typename T>(T*) {
    const RowSplit s = split<T>(shape.width);
    with_count(s.each, [&]<int N>() {
      rms_norm_kernel<T, N><<<static_cast<unsigned>(shape.rows), s.threads, 0, launch.stream>>>(
          static_cast<const T*>(x), static_cast<const T*>(weight), static_cast<T*>(y), inverse_rms,
          shape.width);
    });
  });
  check(cudaGetLastError(), "launch of RMSNorm");
}

int norm_partial_rows(const Launch& launch, RowShape shape) {
  return static_cast<int>(
      std::min<std::size_t>(shape.rows, static_cast<std::size_t>(launch.sms) * 4));
}

void enqueue_rms_norm_backward(const Launch& launch, const void* dy, const void* x,
                               const void* weight, const float* inverse_rms, void* dx,
                               void* dweight, float* partial, RowShape shape) {
  const int blocks = norm_partial_rows(launch, shape);
  with_type(launch.dtype, [&]<typename T>(T*) {
    const RowSplit s = split<T>(shape.width);
    with_count(s.each, [&]<int N>() {
      rms_norm_backward_kernel<T, N>
          <<<static_cast<unsigned>(blocks), s.threads, 0, launch.stream>>>(
              static_cast<const T*>(dy), static_cast<const T*>(x), static_cast<const T*>(weight),
              inverse_rms, static_cast<T*>(dx), partial, shape.rows, shape.width);
    });
    check(cudaGetLastError(), "launch of RMSNorm's backward pass");
    sum_columns_kernel<T>
        <<<static_cast<unsigned>((shape.width + 31) / 32), dim3(32, 32), 0, launch.stream>>>(
            partial, static_cast<T*>(dweight), blocks, shape.width);
  });
  check(cudaGetLastError(), "launch of the sum of weight gradients");
}

void enqueue_labels(const Launch& launch, std::int64_t* labels, RowShape shape) {
  labels_kernel<<<static_cast<unsigned>((shape.rows + 255) / 256), 256, 0, launch.stream>>>(
      labels, shape.rows, shape.width);
  check(cudaGetLastError(), "launch of the labels");
}

void enqueue_cross_entropy(const Launch& launch, const void* logits, const std::int64_t* labels,
                           float* loss, float* log_sum, RowShape shape) {
  with_type(launch.dtype, [&]<typename T>(T*) {
    cross_entropy_kernel<T><<<static_cast<unsigned>(shape.rows), kLossThreads, 0, launch.stream>>>(
        static_cast<const T*>(logits), labels, loss, log_sum, shape.width);
  });
  check(cudaGetLastError(), "launch of cross-entropy");
}

void enqueue_cross_entropy_backward(const Launch& launch, const void* logits,
                                    const std::int64_t* labels, const float* log_sum, void* dlogits,
                                    RowShape shape) {
  with_type(launch.dtype, [&]<typename T>(T*) {
    cross_entropy_backward_kernel<T>
        <<<static_cast<unsigned>(shape.rows), kLossThreads, 0, launch.stream>>>(
            static_cast<const T*>(logits), labels, log_sum, static_cast<T*>(dlogits), shape.width,
            1.0f / static_cast<float>(shape.rows));
  });
  check(cudaGetLastError(), "launch of cross-entropy's backward pass");
}

}  // namespace stepcast::harness::cuda
