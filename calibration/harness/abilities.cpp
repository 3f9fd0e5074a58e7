#include "harness/abilities.h"

#include <cmath>
#include <initializer_list>
#include <limits>
#include <optional>

#include "stepcast/config/config.h"
#include "stepcast/hardware/hardware.h"

namespace stepcast::harness {
namespace {

using job::DType;

// Where a data sheet has no such figure.
constexpr double kPcie = 25e9;  // bytes/s: PCIe 4.0 x16 as measured on common servers

}  // namespace

bool Abilities::has(DType dtype) const {
  if (amd) {
    // Products of hipBLASLt; its block-scaled fp8 is "not supported yet" (hipblaslt.h of ROCm 7.1).
    const auto rate = peak.find(dtype);
    return dtype != DType::fp8_block && rate != peak.end() && rate->second > 0;
  }
  switch (dtype) {
    case DType::fp8:
      return compute_capability >= 8.9;  // Ada and Hopper on
    case DType::fp8_block:
      return compute_capability >= 9.0;
    default:
      return compute_capability >= 8.0;
  }
}

double Abilities::peak_of(DType dtype) const {
  const auto find = [&](std::initializer_list<DType> types) {
    for (const DType type : types) {
      if (const auto at = peak.find(type); at != peak.end() && at->second > 0) {
        return at->second;
      }
    }
    return 100e12;  // FLOP/s: only how long a case may take hangs on it
  };
  if (dtype == DType::fp8_block || dtype == DType::fp8) {
    return find({DType::fp8, DType::fp16, DType::bf16});
  }
  return find({dtype, DType::bf16, DType::fp16, DType::fp32});
}

Abilities abilities_of(const job::Device& device, int gpus, int nodes) {
  Abilities a;
  a.device = device.name;
  a.compute_capability = device.compute_capability;
  a.amd = hardware::vendor_of(device) == hardware::Vendor::amd;
  const Bytes memory = device.usable_memory.count() > 0 ? device.usable_memory : device.memory;
  a.memory = memory.count();
  a.memory_bandwidth = device.memory_bandwidth.count();
  a.host_bandwidth = device.pcie.count() > 0 ? device.pcie.count() : kPcie;
  a.peer_bandwidth = device.nvlink.count() > 0 ? device.nvlink.count() : a.host_bandwidth;
  for (const auto& [dtype, rate] : device.peak) {
    a.peak[dtype] = rate.count();
  }
  a.gpus = gpus;
  a.nodes = nodes;
  return a;
}

Abilities abilities_of(const interop::GpuSession& session, int gpus, int nodes) {
  std::optional<job::Device> best;
  double least = std::numeric_limits<double>::infinity();
  for (const std::string& name : config::list("devices")) {
    const job::Device device = config::device(name);
    const bool amd = hardware::vendor_of(device) == hardware::Vendor::amd;
    if (amd == session.architecture.empty() || (!amd && device.compute_capability <= 0) ||
        device.sms <= 0 || device.memory.count() <= 0) {
      continue;
    }
    // A generation apart weighs more than any size. Those of AMD tell apart by their numbers of
    // compute units and stacks of memory.
    const double distance =
        (amd ? 0 : 10 * std::abs(device.compute_capability - session.compute_capability)) +
        std::abs(std::log(static_cast<double>(device.sms) / std::max(session.sms, 1))) +
        std::abs(std::log(static_cast<double>(device.memory.count()) /
                          static_cast<double>(std::max<std::int64_t>(session.memory, 1))));
    if (distance < least) {
      least = distance;
      best = device;
    }
  }
  Abilities a = abilities_of(best.value(), gpus, nodes);
  a.compute_capability = session.compute_capability;
  a.memory = session.memory;
  return a;
}

}  // namespace stepcast::harness
