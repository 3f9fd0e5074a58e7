#include "stepcast/hardware/hardware.h"

#include <algorithm>
#include <utility>

namespace stepcast::hardware {

Vendor vendor_of(const Device& device) {
  const bool nvidia = device.vendor == Vendor::other && device.compute_capability > 0;
  return nvidia ? Vendor::nvidia : device.vendor;
}

FlopRate peak_of(const Device& device, DType type) {
  if (const auto stated = device.peak.find(type); stated != device.peak.end()) {
    return stated->second;
  }
  const double needed = type == DType::fp8_block ? 9.0 : type == DType::mxfp8 ? 10.0 : 1e9;
  const auto fp8 = device.peak.find(DType::fp8);
  return fp8 != device.peak.end() && device.compute_capability >= needed ? fp8->second
                                                                         : FlopRate(0);
}

// FlashAttention-1 needs Turing, -2 and cuDNN's fused attention Ampere, -3 Hopper (their READMEs);
// xformers' CUTLASS kernels, both passes, run on Volta too (0.0.20 ops/fmha/common.py:147 and
// cutlass.py, 0.0.35 common.py:391).
double least_compute_capability(AttentionKernel kernel) {
  switch (kernel) {
    case AttentionKernel::unfused:
      return 0;
    case AttentionKernel::efficient:
      return 5.0;
    case AttentionKernel::flash1:
      return 7.5;
    case AttentionKernel::flash3:
      return 9.0;
    default:
      return 8.0;
  }
}

bool prefers_cudnn_attention(const Device& device) {
  constexpr double kHopper = 9.0;
  constexpr double kAfterBlackwell = 11.0;  // workstations have 12, and take FlashAttention
  const double have = device.compute_capability;
  return vendor_of(device) == Vendor::nvidia && have >= kHopper && have < kAfterBlackwell;
}

std::optional<Cluster> at_named_rates(const Cluster& cluster) {
  Cluster named = cluster;
  bool others = false;
  // A link that one of the two lacks makes another machine, and no rate of the same one.
  const auto set = [&](Bandwidth& rate, Bandwidth by_name) {
    if (rate.count() > 0 && by_name.count() > 0 && rate.count() != by_name.count()) {
      rate = by_name;
      others = true;
    }
  };
  const auto set_device = [&](Device& device) {
    set(device.nvlink, device.named_nvlink);
    set(device.pcie, device.named_pcie);
  };
  set_device(named.device);
  for (DeviceOverride& one : named.overrides) {
    set_device(one.device);
  }
  set(named.node.nic, named.node.named_nic);
  set(named.node.pcie_uplink, named.node.named_pcie_uplink);
  set(named.node.inter_socket, named.node.named_inter_socket);
  return others ? std::optional(std::move(named)) : std::nullopt;
}

const Device& device_at(const Cluster& cluster, int node) {
  for (auto o = cluster.overrides.rbegin(); o != cluster.overrides.rend(); ++o) {
    if (node >= o->first && node < o->first + o->count) {
      return o->device;
    }
  }
  return cluster.device;
}

std::vector<DeviceNodes> device_nodes(const Cluster& cluster) {
  std::vector<const Device*> of_node(static_cast<std::size_t>(std::max(0, cluster.nodes)),
                                     &cluster.device);
  for (const DeviceOverride& o : cluster.overrides) {
    const int last = std::min(o.first + o.count, cluster.nodes);
    for (int node = o.first; node < last; ++node) {
      of_node[static_cast<std::size_t>(node)] = &o.device;
    }
  }
  std::vector<DeviceNodes> out;
  for (const Device* device : of_node) {
    const auto same = [&](const DeviceNodes& d) { return d.device->name == device->name; };
    const auto found = std::find_if(out.begin(), out.end(), same);
    if (found == out.end()) {
      out.push_back({device, 1});
    } else {
      ++found->nodes;
    }
  }
  return out;
}

FlopRate mean_peak_of(const Cluster& cluster, DType type) {
  double sum = 0;
  int nodes = 0;
  for (const DeviceNodes& d : device_nodes(cluster)) {
    sum += d.nodes * peak_of(*d.device, type).count();
    nodes += d.nodes;
  }
  return FlopRate(nodes > 0 ? sum / nodes : 0);
}

}  // namespace stepcast::hardware
