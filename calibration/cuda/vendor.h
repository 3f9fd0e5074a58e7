// What differs between NVIDIA's and AMD's software beyond names: vendor.cpp for CUDA,
// ../hip/vendor.cpp for ROCm.
#pragma once

#include <string>

#include "bench.h"

namespace stepcast::harness::cuda {

// Versions of the libraries of this build, "" where one is missing, under the names that the
// records have for them.
struct Versions {
  std::string runtime;      // cuda: CUDA or ROCm (HIP)
  std::string blas;         // cublas: cuBLAS or hipBLASLt
  std::string attention;    // cudnn: cuDNN or MIOpen
  std::string collectives;  // nccl: NCCL or RCCL
};
Versions library_versions(const Context& context);
// What both fill them with: "2.28.3", and NCCL's or RCCL's version by the call that they share.
std::string dotted(long long major, long long minor, long long patch);
std::string collectives_version();

// The newest CUDA that the driver supports, where the management library tells no version; "":
// none.
std::string driver_of_runtime();
// Why the runtime has no GPU if no driver is loaded at all; "": one is.
std::string no_driver(cudaError_t error);

}  // namespace stepcast::harness::cuda
