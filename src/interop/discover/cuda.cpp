// Asks the CUDA driver of this host, which is loaded when needed. Containers with
// NVIDIA_DRIVER_CAPABILITIES=compute have it and no NVML.
#include <fmt/format.h>

#include <array>

#include "library.h"
#include "stepcast/interop/discover.h"

namespace stepcast::interop {
namespace {

// From cuda.h (stable ABI of libcuda.so.1).
using Init = int (*)(unsigned);
using Count = int (*)(int*);
using Get = int (*)(int*, int);
using Name = int (*)(char*, int, int);
using Peer = int (*)(int*, int, int, int);
constexpr int kNativeAtomics = 3;  // CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED: over NVLink
// The largest number of GPUs of which all pairs are linked directly (HGX A100 with four); more GPUs
// are joined by switches.
constexpr int kMaxWired = 4;

}  // namespace

NodeList ask_cuda() {
  NodeList out;
  const Library cuda("libcuda.so.1");
  if (!cuda) {
    out.notes.push_back("this host has no CUDA driver (libcuda.so.1)");
    return out;
  }
  const auto init = cuda.symbol<Init>("cuInit");
  const auto count = cuda.symbol<Count>("cuDeviceGetCount");
  const auto get = cuda.symbol<Get>("cuDeviceGet");
  const auto name = cuda.symbol<Name>("cuDeviceGetName");
  const auto peer = cuda.symbol<Peer>("cuDeviceGetP2PAttribute");
  int devices = 0;
  if (!init || !count || !get || !name || init(0) != 0 || count(&devices) != 0 || devices < 1) {
    out.notes.push_back("the CUDA driver knows no GPU on this host");
    return out;
  }
  NodeFacts node;
  node.where.file = "the CUDA driver of this host";
  node.gpus = devices;
  std::array<char, 128> text{};
  int first = 0;
  if (get(&first, 0) == 0 && name(text.data(), static_cast<int>(text.size()) - 1, first) == 0) {
    node.product = text.data();
    node.device = device_of_product(node.product);
  }
  bool all = peer != nullptr && devices > kMaxWired;
  for (int i = 0; all && i < devices; ++i) {
    for (int j = 0; all && j < devices; ++j) {
      int a = 0, b = 0, native = 0;
      all = i == j || (get(&a, i) == 0 && get(&b, j) == 0 &&
                       peer(&native, kNativeAtomics, a, b) == 0 && native != 0);
    }
  }
  node.switched = all;
  out.nodes.push_back(std::move(node));
  return out;
}

}  // namespace stepcast::interop
