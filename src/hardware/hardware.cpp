#include "stepcast/hardware/hardware.h"

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

}  // namespace stepcast::hardware
