// Implements harness::Device for a GPU.
#include "open.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <ctime>
#include <variant>

#include "bench.h"
#include "sensors.h"
#include "vendor.h"
#ifdef STEPCAST_HAVE_NCCL
#include "mpi.h"
#endif

namespace stepcast::harness {
namespace cuda {
namespace {

// Enough to evict every operand from L2, even if its two halves hold a copy each (Hopper).
constexpr std::size_t kScrubOfL2 = 3;
constexpr std::size_t kSmallestScrub = std::size_t{64} << 20U;

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32] = {};
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int gpu) {
    context_.gpu = gpu;
    check(cudaSetDevice(gpu), "cudaSetDevice");
    check(cudaGetDeviceProperties(&context_.properties, gpu), "cudaGetDeviceProperties");
    check(cudaStreamCreateWithFlags(&context_.stream, cudaStreamNonBlocking), "cudaStreamCreate");
    const auto l2 = static_cast<std::size_t>(std::max(context_.properties.l2CacheSize, 0));
    context_.scrub = Buffer(std::max(kScrubOfL2 * l2, kSmallestScrub));
  }
  ~CudaDevice() override { (void)cudaStreamDestroy(context_.stream); }
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  interop::GpuSession session() const override {
    const cudaDeviceProp& p = context_.properties;
    const Limits limits = read_limits(context_.gpu);
    interop::GpuSession s;
    s.date = utc_now();
    s.gpu = p.name;
    check(cudaGetDeviceCount(&s.gpus), "cudaGetDeviceCount");
    const GpuTarget target = target_of(context_);
    s.compute_capability = target.compute_capability;
    s.architecture = target.architecture;
    s.sms = p.multiProcessorCount;
    s.memory = static_cast<std::int64_t>(p.totalGlobalMem);
    s.l2 = p.l2CacheSize;
    s.sm_clock = limits.sm_clock > 0 ? limits.sm_clock : kilohertz(cudaDevAttrClockRate);
    s.memory_clock =
        limits.memory_clock > 0 ? limits.memory_clock : kilohertz(cudaDevAttrMemoryClockRate);
    s.power_limit = limits.power;
    s.driver = limits.driver.empty() ? driver_of_runtime() : limits.driver;
    const Versions versions = library_versions(context_);
    s.cuda = versions.runtime;
    s.cublas = versions.blas;
    s.cudnn = versions.attention;
    s.nccl = versions.collectives;
    return s;
  }

  Samples run(const interop::GpuCase& what, const Policy& policy) override {
    check(cudaSetDevice(context_.gpu), "cudaSetDevice");
    Samples samples = std::visit([&](const auto& c) { return dispatch(c, policy); }, what);
    check(cudaDeviceSynchronize(), "kernel");
    return samples;
  }

 private:
  double kilohertz(cudaDeviceAttr attribute) const {
    int value = 0;
    return cudaDeviceGetAttribute(&value, attribute, context_.gpu) == cudaSuccess ? value * 1e3 : 0;
  }

  Samples dispatch(const interop::GemmCase& c, const Policy& p) { return run_gemm(context_, c, p); }
  Samples dispatch(const interop::AttentionCase& c, const Policy& p) {
    return run_attention(context_, c, p);
  }
  Samples dispatch(const interop::MemoryCase& c, const Policy& p) {
    return run_memory(context_, c, p);
  }
  Samples dispatch(const interop::CopyCase& c, const Policy& p) { return run_copy(context_, c, p); }
  Samples dispatch(const interop::LaunchCase& c, const Policy& p) {
    return run_launch(context_, c, p);
  }
  Samples dispatch(const interop::CollectiveCase& c, const Policy& p) {
    return run_collective(context_, c, p);
  }
  Samples dispatch(const interop::OverlapCase& c, const Policy& p) {
    return run_overlap(context_, c, p);
  }
  Samples dispatch(const interop::LayerCase& c, const Policy& p) {
    return run_layer(context_, c, p);
  }

  Context context_;
};

// There is a one-line message for each reason why there is no GPU.
[[noreturn]] void no_device(const std::string& why) { throw NoDevice("no usable GPU: " + why); }

}  // namespace
}  // namespace cuda

std::unique_ptr<Device> cuda::open_local(int gpu) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (const std::string why = cuda::no_driver(error); !why.empty()) {
    cuda::no_device(why);
  }
  if (error != cudaSuccess && error != cudaErrorNoDevice) {
    cuda::no_device(cudaGetErrorString(error));
  }
  if (count == 0) {
    cuda::no_device("the driver shows none");
  }
  if (gpu < 0 || gpu >= count) {
    cuda::no_device("--gpu " + std::to_string(gpu) + ": there are " + std::to_string(count) +
                    ", counted from 0");
  }
  try {
    return std::make_unique<cuda::CudaDevice>(gpu);
  } catch (const std::runtime_error& e) {
    cuda::no_device(e.what());
  }
}

std::unique_ptr<Device> open_device(int gpu) {
#ifdef STEPCAST_HAVE_NCCL
  return cuda::share(cuda::open_local(gpu));
#else
  return cuda::open_local(gpu);
#endif
}

}  // namespace stepcast::harness
