#include "cuda/vendor.h"

#include <filesystem>

#ifdef STEPCAST_HAVE_HIPBLASLT
#include <hipblaslt/hipblaslt-version.h>
#endif
#ifdef STEPCAST_HAVE_MIOPEN
#include <miopen/miopen.h>
#endif

namespace stepcast::harness::cuda {
namespace {

std::string runtime_version() {
  int version = 0;  // as HIP_VERSION: 60443482 is 6.4.43482
  if (hipRuntimeGetVersion(&version) != hipSuccess) {
    return "";
  }
  return dotted(version / 10000000, version / 100000 % 100, version % 100000);
}

std::string hipblaslt_version() {
#ifdef STEPCAST_HAVE_HIPBLASLT
  return dotted(HIPBLASLT_VERSION_MAJOR, HIPBLASLT_VERSION_MINOR, HIPBLASLT_VERSION_PATCH);
#else
  return "";
#endif
}

std::string miopen_version() {
#ifdef STEPCAST_HAVE_MIOPEN
  std::size_t major = 0;
  std::size_t minor = 0;
  std::size_t patch = 0;
  if (miopenGetVersion(&major, &minor, &patch) != miopenStatusSuccess) {
    return "";
  }
  return dotted(static_cast<long long>(major), static_cast<long long>(minor),
                static_cast<long long>(patch));
#else
  return "";
#endif
}

}  // namespace

Versions library_versions(const Context&) {
  return {runtime_version(), hipblaslt_version(), miopen_version(), collectives_version()};
}

std::string driver_of_runtime() { return ""; }

std::string no_driver(cudaError_t error) {
  std::error_code ignored;
  return error == hipErrorNoDevice && !std::filesystem::exists("/dev/kfd", ignored)
             ? "no amdgpu driver is loaded"
             : "";
}

}  // namespace stepcast::harness::cuda
