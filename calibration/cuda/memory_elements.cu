#include "bench.h"
#include "memory_elements.cuh"

namespace stepcast::harness::cuda {

void enqueue_copy(const Launch& launch, const void* x, void* y, std::size_t elements) {
  with_type(launch.dtype, [&]<typename T>(T*) {
    const std::size_t packs = elements / kPack<T>;
    const int each = packs_per_thread(launch, packs);
    const unsigned blocks = blocks_for(packs, each);
    const T* from = static_cast<const T*>(x);
    T* to = static_cast<T*>(y);
    if (each == 4) {
      copy_kernel<T, 4><<<blocks, kThreads, 0, launch.stream>>>(from, to, packs);
    } else {
      copy_kernel<T, 1><<<blocks, kThreads, 0, launch.stream>>>(from, to, packs);
    }
  });
  check(cudaGetLastError(), "launch of the copy kernel");
}

void enqueue_add(const Launch& launch, const void* x, const void* y, void* z,
                 std::size_t elements) {
  with_type(launch.dtype, [&]<typename T>(T*) {
    const std::size_t packs = elements / kPack<T>;
    const int each = packs_per_thread(launch, packs);
    const unsigned blocks = blocks_for(packs, each);
    const T* a = static_cast<const T*>(x);
    const T* b = static_cast<const T*>(y);
    T* sum = static_cast<T*>(z);
    if (each == 4) {
      add_kernel<T, 4><<<blocks, kThreads, 0, launch.stream>>>(a, b, sum, packs);
    } else {
      add_kernel<T, 1><<<blocks, kThreads, 0, launch.stream>>>(a, b, sum, packs);
    }
  });
  check(cudaGetLastError(), "launch of the add kernel");
}

void enqueue_swiglu(const Launch& launch, const void* gate_up, void* y, RowShape shape) {
  with_type(launch.dtype, [&]<typename T>(T*) {
    swiglu_kernel<T><<<static_cast<unsigned>(shape.rows), kThreads, 0, launch.stream>>>(
        static_cast<const T*>(gate_up), static_cast<T*>(y), shape.width);
  });
  check(cudaGetLastError(), "launch of SwiGLU");
}

void enqueue_swiglu_backward(const Launch& launch, const void* gate_up, const void* dy,
                             void* dgate_up, RowShape shape) {
  with_type(launch.dtype, [&]<typename T>(T*) {
    swiglu_backward_kernel<T><<<static_cast<unsigned>(shape.rows), kThreads, 0, launch.stream>>>(
        static_cast<const T*>(gate_up), static_cast<const T*>(dy), static_cast<T*>(dgate_up),
        shape.width);
  });
  check(cudaGetLastError(), "launch of SwiGLU's backward pass");
}

void enqueue_square(const Launch& launch, float* x, std::size_t elements) {
  square_kernel<<<static_cast<unsigned>(launch.sms) * 8, 256, 0, launch.stream>>>(x, elements);
  check(cudaGetLastError(), "launch of the squares");
}

void enqueue_adam(const Launch& launch, const float* gradient, float* master, float* m, float* v,
                  void* parameter, std::size_t elements, std::size_t tensor_elements) {
  with_type(launch.dtype, [&]<typename T>(T*) {
    adam_lists(gradient, master, m, v, static_cast<T*>(parameter), elements, tensor_elements,
               [&](const AdamList& list, int blocks) {
                 const auto grid = static_cast<unsigned>(blocks);
                 if (parameter != nullptr) {
                   adam_kernel<T, true><<<grid, kAdamThreads, 0, launch.stream>>>(list, AdamStep{});
                 } else {
                   adam_kernel<T, false>
                       <<<grid, kAdamThreads, 0, launch.stream>>>(list, AdamStep{});
                 }
                 check(cudaGetLastError(), "launch of Adam");
               });
  });
}

}  // namespace stepcast::harness::cuda
