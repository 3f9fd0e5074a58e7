// NVML of this host, found when asked: the library comes with the driver, and a build needs none of
// it.
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <memory>

#include "stepcast/interop/discover.h"

namespace stepcast::interop {
namespace {

// Of nvml.h (stable ABI of libnvidia-ml.so.1).
using Device = void*;
using Init = int (*)();
using Count = int (*)(unsigned*);
using Handle = int (*)(unsigned, Device*);
using Name = int (*)(Device, char*, unsigned);
using LinkState = int (*)(Device, unsigned, unsigned*);
using Capability = int (*)(Device, int*, int*);
constexpr unsigned kMostLinks = 18;  // NVML_NVLINK_MAX_LINKS

template <class F>
F symbol(void* library, const char* name) {
  return reinterpret_cast<F>(dlsym(library, name));
}

}  // namespace

NodeList ask_nvml() {
  NodeList out;
  const std::unique_ptr<void, int (*)(void*)> library(
      dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL),
      [](void* l) { return l == nullptr ? 0 : dlclose(l); });
  if (!library) {
    out.notes.push_back("this host has no NVML (libnvidia-ml.so.1)");
    return out;
  }
  const auto init = symbol<Init>(library.get(), "nvmlInit_v2");
  const auto shutdown = symbol<Init>(library.get(), "nvmlShutdown");
  const auto count = symbol<Count>(library.get(), "nvmlDeviceGetCount_v2");
  const auto handle = symbol<Handle>(library.get(), "nvmlDeviceGetHandleByIndex_v2");
  const auto name = symbol<Name>(library.get(), "nvmlDeviceGetName");
  const auto link = symbol<LinkState>(library.get(), "nvmlDeviceGetNvLinkState");
  const auto capability = symbol<Capability>(library.get(), "nvmlDeviceGetCudaComputeCapability");
  unsigned devices = 0;
  if (!init || !shutdown || !count || !handle || !name || init() != 0) {
    out.notes.push_back("NVML does not start on this host");
    return out;
  }
  if (count(&devices) == 0 && devices > 0) {
    NodeFacts node;
    node.gpus = static_cast<int>(devices);
    Device device = nullptr;
    std::array<char, 128> text{};
    if (handle(0, &device) == 0 && name(device, text.data(), text.size()) == 0) {
      node.product = text.data();
      node.device = device_of_product(node.product);
      for (unsigned l = 0; link && l < kMostLinks; ++l) {
        unsigned active = 0;
        node.nvlinks += link(device, l, &active) == 0 && active == 1 ? 1 : 0;
      }
      int major = 0, minor = 0;
      if (capability && capability(device, &major, &minor) == 0) {
        // As in NCCL's dumps (nccl_topology.cpp).
        const double each = major < 7 ? 20e9 : major < 10 ? 25e9 : 50e9;
        node.nvlink = Bandwidth(node.nvlinks * each);
      }
    }
    out.nodes.push_back(std::move(node));
  } else {
    out.notes.push_back("NVML knows no GPU on this host");
  }
  shutdown();
  return out;
}

}  // namespace stepcast::interop
