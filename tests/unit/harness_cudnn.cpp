// cuDNN compiles for a GPU that is only described: the library gets the attention graphs for A100,
// H100 and B200, and compiles and names the kernel that its heuristics choose. Only the driver that
// would load the kernel is replaced (harness_cudnn_driver.cpp).
#include <fmt/format.h>

#include <algorithm>

#include "catch.hpp"
#include "cuda/attention_graph.h"

using namespace stepcast;
using namespace stepcast::harness;
using namespace stepcast::harness::cuda;
using interop::AttentionCase;

extern "C" const char* stepcast_take_loaded_kernel();

namespace {

struct Gpu {
  const char* name;
  int version;  // 100 x compute capability
  int sms;
  std::int64_t l2, shared, memory;  // bytes; shared: the maximum that a block may opt into
};

// NVIDIA data sheets; shared memory from the CUDA programming guide's table of compute
// capabilities (163, 227, 227 KiB).
const Gpu kA100{"NVIDIA A100-SXM4-80GB", 800, 108, 40ll << 20, 163 << 10, 80ll << 30};
const Gpu kH100{"NVIDIA H100 80GB HBM3", 900, 132, 50ll << 20, 227 << 10, 80ll << 30};
const Gpu kB200{"NVIDIA B200", 1000, 148, 126ll << 20, 227 << 10, 180ll << 30};

CudnnDevice described(const Gpu& gpu) {
  return cudnn_device(fmt::format(
      R"({{"deviceName": "{}", "deviceVer": {}, "driverVer": 13000, "cudaDeviceId": 0,
"pciDeviceId": 0, "multiProcessorCount": {}, "l2CacheSize": {}, "totalGlobalMem": {},
"maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": {},
"reservedSharedMemoryPerBlock": 1024, "regsPerBlock": 65536, "maxRegistersPerSM": 65536,
"maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "warpSize": 32,
"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "isTccDriver": 0,
"supportCoopLaunch": 1, "smClockRateKHz": 1980000, "memClockRateKHz": 2619000}})",
      gpu.name, gpu.version, gpu.sms, gpu.l2, gpu.memory, gpu.shared));
}

AttentionCase shape(std::int64_t length, int heads, int kv_heads, int head_dim, bool causal,
                    bool backward) {
  AttentionCase c;
  c.sequences = 2;
  c.length = length;
  c.heads = heads;
  c.kv_heads = kv_heads;
  c.head_dim = head_dim;
  c.causal = causal;
  c.backward = backward;
  return c;
}

// Name of the kernel that the plan would launch.
std::string planned(const AttentionCase& what, const Gpu& gpu) {
  const AttentionGraph graph = plan_attention(what, described(gpu));
  // Flash attention never stores the scores of whole sequences.
  std::int64_t bytes = workspace_bytes(graph.plan);
  for (const AttentionScratch& part : graph.scratch) {
    bytes += part.bytes;
  }
  CHECK(bytes < 16 * (attention_elements(what, kQ) + attention_elements(what, kStats)));
  return stepcast_take_loaded_kernel();
}

bool holds(const std::vector<std::int64_t>& uids, std::int64_t uid) {
  return std::find(uids.begin(), uids.end(), uid) != uids.end();
}

}  // namespace

TEST_CASE("cuDNN takes each forward graph for flash attention of the GPU it is described") {
  CHECK_THAT(planned(shape(8192, 32, 8, 128, true, false), kH100),
             ContainsSubstring("sm90_flash_fprop"));
  CHECK_THAT(planned(shape(4096, 16, 16, 192, false, false), kH100),
             ContainsSubstring("sm90_flash_fprop"));
  CHECK_THAT(planned(shape(1024, 32, 8, 128, true, false), kA100),
             ContainsSubstring("sm80_flash_fprop"));
  CHECK_THAT(planned(shape(131072, 8, 1, 128, true, false), kB200),
             ContainsSubstring("sm100_flash_fprop"));
}

TEST_CASE("cuDNN takes each backward graph for flash attention of the GPU it is described") {
  CHECK_THAT(planned(shape(4096, 16, 16, 64, false, true), kH100),
             ContainsSubstring("sm90_flash_bprop"));
  CHECK_THAT(planned(shape(131072, 8, 1, 192, true, true), kH100),
             ContainsSubstring("sm90_flash_bprop"));
  CHECK_THAT(planned(shape(1024, 32, 8, 128, true, true), kA100),
             ContainsSubstring("sm80_flash_bprop"));
  CHECK_THAT(planned(shape(4096, 32, 8, 128, true, true), kB200),
             ContainsSubstring("sm100_flash_bprop"));
}

TEST_CASE("A plan names every tensor once, and those of its pass alone") {
  const AttentionGraph forward =
      plan_attention(shape(2048, 8, 2, 128, true, false), described(kH100));
  CHECK(forward.tensors.size() == 5);
  CHECK(forward.scratch.empty());
  CHECK(holds(forward.tensors, kStats));
  CHECK_FALSE(holds(forward.tensors, kGradQ));

  const AttentionCase grouped = shape(2048, 8, 2, 128, true, true);
  const AttentionGraph backward = plan_attention(grouped, described(kH100));
  std::vector<std::int64_t> uids = backward.tensors;
  CHECK(uids.size() == 9);
  for (const AttentionScratch& part : backward.scratch) {
    uids.push_back(part.uid);
    // dQ is accumulated over blocks of keys, in fp32 and starting from zero.
    CHECK(part.zeroed == (part.uid == kGradQSum));
    if (part.uid == kGradQSum) {
      CHECK(part.bytes == 4 * attention_elements(grouped, kGradQ));
    }
    if (part.uid == kFullGradK) {
      CHECK(part.bytes == 2 * attention_elements(grouped, kQ));
    }
  }
  uids.insert(uids.end(), backward.values.begin(), backward.values.end());
  std::sort(uids.begin(), uids.end());
  CHECK(std::adjacent_find(uids.begin(), uids.end()) == uids.end());
}

TEST_CASE("What cuDNN has no kernel for is refused as unsupported") {
  CHECK_THROWS_AS(planned(shape(4096, 16, 16, 512, true, true), kA100), Unsupported);
  CHECK_THROWS_AS(planned(shape(4096, 16, 16, 100, true, false), kH100), Unsupported);
  CHECK_THROWS_AS(planned(shape(4096, 16, 5, 128, true, false), kH100), Unsupported);
  AttentionCase fp32 = shape(4096, 16, 16, 128, true, false);
  fp32.dtype = job::DType::fp32;
  CHECK_THROWS_AS(planned(fp32, kH100), Unsupported);
}
