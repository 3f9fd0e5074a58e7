#ifdef STEPCAST_HAVE_NCCL
#include <nccl.h>
#endif

#include "vendor.h"

namespace stepcast::harness::cuda {

std::string dotted(long long major, long long minor, long long patch) {
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

std::string collectives_version() {
#ifdef STEPCAST_HAVE_NCCL
  int v = 0;  // 22803: 2.28.3
  if (ncclGetVersion(&v) != ncclSuccess) {
    return "";
  }
  return dotted(v / 10000, v / 100 % 100, v % 100);
#else
  return "";
#endif
}

}  // namespace stepcast::harness::cuda
