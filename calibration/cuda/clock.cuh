// The clock of kernels that wait. It runs at a constant rate on every SM or CU.
#pragma once

#include <cuda_runtime.h>

namespace stepcast::harness::cuda {

#if defined(__HIP__)

__device__ inline unsigned long long clock_now() { return __builtin_amdgcn_s_memrealtime(); }

template <int kNanoseconds>
__device__ inline void pause() {
  // In units of 64 cycles, of some 30 ns; at most 127 units.
  constexpr int kUnits = kNanoseconds / 30;
  __builtin_amdgcn_s_sleep(kUnits < 1 ? 1 : kUnits > 127 ? 127 : kUnits);
}

// ROCm 5 does not tell the rate; CDNA's is 100 MHz.
inline double clock_rate(int gpu) {
#if HIP_VERSION >= 60000000
  int kilohertz = 0;
  if (hipDeviceGetAttribute(&kilohertz, hipDeviceAttributeWallClockRate, gpu) == hipSuccess &&
      kilohertz > 0) {
    return kilohertz * 1e3;
  }
#else
  (void)gpu;
#endif
  return 100e6;
}

#else

__device__ inline unsigned long long clock_now() {
  unsigned long long now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

template <int kNanoseconds>
__device__ inline void pause() {
  __nanosleep(kNanoseconds);
}

inline double clock_rate(int) { return 1e9; }

#endif

// Cycles of the clock for a waiting kernel on the current GPU.
inline unsigned long long clock_cycles(double seconds) {
  int gpu = 0;
  (void)cudaGetDevice(&gpu);
  return static_cast<unsigned long long>(seconds * clock_rate(gpu));
}

}  // namespace stepcast::harness::cuda
