// What the measuring files share: a context, device buffers of random numbers, the timing loops.
// Files that launch kernels are .cu; host logic stays in .cpp (fmt does not compile under nvcc).
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "../harness/device.h"

namespace stepcast::harness::cuda {

// Throws std::runtime_error("what: CUDA's text") when a call failed; Unsupported for
// cudaErrorMemoryAllocation.
void check(cudaError_t error, const char* what);

class Buffer {  // device memory, released on destruction; movable
 public:
  Buffer() = default;
  explicit Buffer(std::size_t bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  void* data() const { return data_; }
  std::size_t size() const { return size_; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

struct Context {
  int gpu = 0;
  cudaDeviceProp properties{};
  cudaStream_t stream = nullptr;
  Buffer scrub;  // larger than L2: written between samples so that operands come from memory
};

// Normal deviates of variance 1 in the element type (fp8: clipped), the same for the same seed.
// `elements` of them.
void fill_random(Context& context, void* data, std::size_t elements, job::DType dtype,
                 std::uint64_t seed);

// Calls `launch` (which must only enqueue work on the context's stream) as the policy asks; L2 is
// scrubbed before each sample outside of the timed region. `rotate` of launch: index of the
// repetition, for rotating buffers.
Samples time_burst(Context& context, const Policy& policy,
                   const std::function<void(int rotate)>& launch);
// Back to back for policy.sustained seconds after policy.sustained_warmup at load; clocks and power
// are sampled.
Samples time_sustained(Context& context, const Policy& policy,
                       const std::function<void(int rotate)>& launch);

// Clock, power and temperature now (NVML, opened at run time); zeros where not known.
struct Sensors {
  double sm_clock = 0, power = 0, temperature = 0;
};
Sensors read_sensors(int gpu);

// One function a kind of case, each in a file of its own: gemm.cu (grouped.cu), attention.cpp,
// memory.cu, copy.cu, launch.cu, collective.cpp, overlap.cpp, layer.cpp.
Samples run_gemm(Context&, const interop::GemmCase&, const Policy&);
Samples run_attention(Context&, const interop::AttentionCase&, const Policy&);
Samples run_memory(Context&, const interop::MemoryCase&, const Policy&);
Samples run_copy(Context&, const interop::CopyCase&, const Policy&);
Samples run_launch(Context&, const interop::LaunchCase&, const Policy&);
Samples run_collective(Context&, const interop::CollectiveCase&, const Policy&);
Samples run_overlap(Context&, const interop::OverlapCase&, const Policy&);
Samples run_layer(Context&, const interop::LayerCase&, const Policy&);

}  // namespace stepcast::harness::cuda
