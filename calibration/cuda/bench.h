// Common parts of all measurements: a context, device buffers of random numbers, and the timing
// loops. Files that launch kernels are .cu; host logic stays in .cpp (fmt does not compile under
// nvcc).
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "../harness/device.h"
#include "target.h"

namespace stepcast::harness::cuda {

// Throws std::runtime_error("what: CUDA's text") if a call failed, and Unsupported for
// cudaErrorMemoryAllocation.
void check(cudaError_t error, const char* what);

class Buffer {  // movable device memory that is released on destruction
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

GpuTarget target_of(const Context& context);  // target.cpp, ../hip/target.cpp

// Fills `elements` normal deviates of variance 1 in the element type (clipped for fp8). The same
// seed gives the same values.
void fill_random(Context& context, void* data, std::size_t elements, job::DType dtype,
                 std::uint64_t seed);

// Calls `launch` (which must only enqueue work on the context's stream) as the policy asks; L2 is
// scrubbed before each sample, outside of the timed region. The argument `rotate` of `launch` is
// the index of the repetition, for rotating buffers.
Samples time_burst(Context& context, const Policy& policy,
                   const std::function<void(int rotate)>& launch);
// Runs `launch` back to back for policy.sustained seconds, after policy.sustained_warmup seconds of
// warm-up under load. Clocks and power are sampled.
Samples time_sustained(Context& context, const Policy& policy,
                       const std::function<void(int rotate)>& launch);

// Current clock, power and temperature (sensors.h); zeros if not known.
struct Sensors {
  double sm_clock = 0, power = 0, temperature = 0;
};
Sensors read_sensors(int gpu);

// One function for each kind of case, each in its own file: gemm.cu (grouped.cu), attention.cpp,
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
