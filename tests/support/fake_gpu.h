// A GPU runtime that computes nothing, complete enough to run calibrate-gpu from end to end without
// a GPU: CUDA's (fake_runtime.cpp, fake_cuda_libraries.cpp) or, with calibration/hip/include before
// CUDA's headers, ROCm's (fake_runtime.cpp, fake_rocm_libraries.cpp); fake_nccl.cpp is both NCCL
// and RCCL. It is linked into the program before the real libraries and hides their functions;
// functions that it does not define (texts of errors) come from the real ones. FAKE_GPUS is the
// number of GPUs (default 1).
//
// Device memory is host memory that is not accessed. Each stream has a clock: a kernel starts when
// the previous one has ended, but not before now, and takes the time of a roofline; events read
// that clock. Small NCCL operations really move numbers, since the harness checks them.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#if defined(__HIP_PLATFORM_AMD__)
#define CUstream_st ihipStream_t
#define CUevent_st ihipEvent_t
#endif

// The types of the handles are incomplete in the runtime's headers.
struct CUstream_st {
  double time = 0;  // when the last enqueued work ends
};
struct CUevent_st {
  double time = 0;
};

namespace stepcast::fake {

inline constexpr double kFlops = 600e12;    // FLOP/s
inline constexpr double kBandwidth = 3e12;  // bytes/s
inline constexpr std::size_t kMoved = 1
                                      << 20;  // bytes; operations up to this size really move data

// Work of so many seconds on a stream, or in the graph that is captured.
void enqueue(cudaStream_t stream, double seconds);

// Time of a product of so many FLOP and bytes.
double product_time(double m, double n, double k, double batch);

}  // namespace stepcast::fake
