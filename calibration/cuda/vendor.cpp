#include "vendor.h"

#include <cublasLt.h>
#ifdef STEPCAST_HAVE_CUDNN
#include <cudnn.h>
#endif

namespace stepcast::harness::cuda {
namespace {

std::string runtime_version() {
  int version = 0;  // 13000: 13.0
  if (cudaRuntimeGetVersion(&version) != cudaSuccess) {
    return "";
  }
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string cublas_version() {
  // A major version counts 10000 from version 12 on, and 1000 before.
  const auto v = static_cast<long long>(cublasLtGetVersion());
  return v >= 100000 ? dotted(v / 10000, v / 100 % 100, v % 100)
                     : dotted(v / 1000, v / 100 % 10, v % 100);
}

std::string cudnn_version() {
#ifdef STEPCAST_HAVE_CUDNN
  const auto v = static_cast<long long>(cudnnGetVersion());  // 91900: 9.19.0
  return dotted(v / 10000, v / 100 % 100, v % 100);
#else
  return "";
#endif
}

}  // namespace

Versions library_versions(const Context&) {
  return {runtime_version(), cublas_version(), cudnn_version(), collectives_version()};
}

std::string driver_of_runtime() {
  int version = 0;  // the newest CUDA that the driver supports, used if NVML is missing
  if (cudaDriverGetVersion(&version) != cudaSuccess || version == 0) {
    return "";
  }
  return "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string no_driver(cudaError_t error) {
  // Without any driver the runtime reports "insufficient driver" and not "no device".
  int driver = 0;
  return error == cudaErrorInsufficientDriver &&
                 (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
             ? "no NVIDIA driver is loaded"
             : "";
}

}  // namespace stepcast::harness::cuda
