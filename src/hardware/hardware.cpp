#include "stepcast/hardware/hardware.h"

#include <algorithm>

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
