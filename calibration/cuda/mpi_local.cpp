// The GPU functions of a process, by CUDA.
#include <cuda_runtime.h>

#include <utility>

#include "mpi.h"
#ifdef STEPCAST_HAVE_NCCL
#include "nccl.h"
#endif

namespace stepcast::harness::cuda {

Local local_gpus(std::function<std::unique_ptr<Device>(int gpu)> open_local) {
  const auto count = [] {
    int visible = 0;
    return cudaGetDeviceCount(&visible) == cudaSuccess ? visible : 0;
  };
  const auto close = [] {
#ifdef STEPCAST_HAVE_NCCL
    close_collectives();
#endif
  };
  return {count, std::move(open_local), close};
}

}  // namespace stepcast::harness::cuda
