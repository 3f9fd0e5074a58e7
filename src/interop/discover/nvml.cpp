// Asks NVML of this host. The library comes with the driver and is loaded when needed, so a build
// does not need it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "library.h"
#include "nvlink.h"
#include "stepcast/interop/discover.h"

namespace stepcast::interop {
namespace {

// From nvml.h (stable ABI of libnvidia-ml.so.1).
using Device = void*;
struct PciInfo {  // nvmlPciInfo_t
  char legacy[16];
  unsigned domain, bus, device, id, subsystem;
  char text[32];
};
using NvmlInit = int (*)();
using NvmlCount = int (*)(unsigned*);
using Handle = int (*)(unsigned, Device*);
using NvmlName = int (*)(Device, char*, unsigned);
using LinkState = int (*)(Device, unsigned, unsigned*);
using LinkPci = int (*)(Device, unsigned, PciInfo*);
using Pci = int (*)(Device, PciInfo*);
using Capability = int (*)(Device, int*, int*);
constexpr unsigned kMaxLinks = 18;  // NVML_NVLINK_MAX_LINKS
constexpr unsigned kToGpu = 0;      // NVML_NVLINK_DEVICE_TYPE_GPU

std::array<unsigned, 3> place(const PciInfo& pci) { return {pci.domain, pci.bus, pci.device}; }

struct Nvml {
  Library library{"libnvidia-ml.so.1"};
  NvmlInit init = library.symbol<NvmlInit>("nvmlInit_v2");
  NvmlInit shutdown = library.symbol<NvmlInit>("nvmlShutdown");
  NvmlCount count = library.symbol<NvmlCount>("nvmlDeviceGetCount_v2");
  Handle handle = library.symbol<Handle>("nvmlDeviceGetHandleByIndex_v2");
  NvmlName name = library.symbol<NvmlName>("nvmlDeviceGetName");
  Pci pci = library.symbol<Pci>("nvmlDeviceGetPciInfo_v3");
  LinkState link = library.symbol<LinkState>("nvmlDeviceGetNvLinkState");
  LinkState kind = library.symbol<LinkState>("nvmlDeviceGetNvLinkRemoteDeviceType");
  LinkPci remote = library.symbol<LinkPci>("nvmlDeviceGetNvLinkRemotePciInfo_v2");
  Capability capability = library.symbol<Capability>("nvmlDeviceGetCudaComputeCapability");

  bool whole() const { return init && shutdown && count && handle && name; }
};

// Reads the active links of each GPU and what they are connected to.
void read_links(const Nvml& nvml, const std::vector<Device>& gpus, NodeFacts& node) {
  if (!nvml.link) {
    return;
  }
  std::map<std::array<unsigned, 3>, int> number;
  for (std::size_t i = 0; nvml.pci && i < gpus.size(); ++i) {
    PciInfo pci{};
    if (nvml.pci(gpus[i], &pci) == 0) {
      number[place(pci)] = static_cast<int>(i);
    }
  }
  int fewest = static_cast<int>(kMaxLinks);
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    int links = 0;
    std::map<int, int> peers;
    for (unsigned l = 0; l < kMaxLinks; ++l) {
      unsigned active = 0;
      if (nvml.link(gpus[i], l, &active) != 0 || active != 1) {
        continue;
      }
      ++links;
      unsigned kind = kToGpu;
      PciInfo pci{};
      const bool known = nvml.kind && nvml.kind(gpus[i], l, &kind) == 0;
      const bool gpu = known && kind == kToGpu && nvml.remote &&
                       nvml.remote(gpus[i], l, &pci) == 0 && number.count(place(pci)) > 0;
      if (gpu) {
        ++peers[number.at(place(pci))];
      } else {
        node.switched = true;  // the link is not connected to a GPU of this host
      }
    }
    for (const auto& [peer, count] : peers) {
      if (peer > static_cast<int>(i)) {
        node.mesh.push_back({static_cast<int>(i), peer, count});
      }
    }
    fewest = std::min(fewest, links);
  }
  node.nvlinks = fewest;
  int major = 0, minor = 0;
  if (nvml.capability && nvml.capability(gpus.front(), &major, &minor) == 0) {
    node.nvlink = Bandwidth(node.nvlinks * per_nvlink(10 * major + minor).count());
  }
}

}  // namespace

NodeList ask_nvml() {
  NodeList out;
  const Nvml nvml;
  if (!nvml.library) {
    out.notes.push_back("this host has no NVML (libnvidia-ml.so.1)");
    return out;
  }
  if (!nvml.whole() || nvml.init() != 0) {
    out.notes.push_back("NVML does not start on this host");
    return out;
  }
  unsigned devices = 0;
  std::vector<Device> gpus;
  if (nvml.count(&devices) == 0) {
    for (unsigned i = 0; i < devices; ++i) {
      Device device = nullptr;
      if (nvml.handle(i, &device) == 0) {
        gpus.push_back(device);
      }
    }
  }
  if (gpus.empty()) {
    out.notes.push_back("NVML knows no GPU on this host");
  } else {
    NodeFacts node;
    node.where.file = "NVML of this host";
    node.gpus = static_cast<int>(gpus.size());
    std::array<char, 128> text{};
    if (nvml.name(gpus.front(), text.data(), text.size()) == 0) {
      node.product = text.data();
      node.device = device_of_product(node.product);
    }
    read_links(nvml, gpus, node);
    out.nodes.push_back(std::move(node));
  }
  nvml.shutdown();
  return out;
}

}  // namespace stepcast::interop
