// LAW: one message over one path: base latency of its class + bytes / rate. NCCL has no cost model
// for it; bases are the smallest times of nccl-tests' sendrecv: two H100 over NVLink 4.9 us, two
// nodes 17 us (NDR); the network's rate is shared by two to four channels
// (NCCL_P2P_PER_CHANNEL_NET_BW 14 GB/s).
#include <algorithm>

#include "line.h"

namespace stepcast::cost {

Line direct_line(const cluster::Path& path, double share) {
  constexpr double kNvlinkBase = 5e-6;  // seconds, launch included
  constexpr double kPcieBase = 7e-6;
  constexpr double kNetBase = 14e-6;
  Line line{Algorithm::direct, Protocol::simple, 0, 0};
  const double rate = path.bandwidth.count();
  switch (path.kind) {
    case cluster::PathClass::self:
      line.bandwidth = rate / 2;  // the data is both read and written
      break;
    case cluster::PathClass::nvlink:
      line.latency = kNvlinkBase;
      line.bandwidth = rate * share;
      break;
    case cluster::PathClass::pcie:
      line.latency = kPcieBase;
      line.bandwidth = rate * kPcieShare;
      break;
    case cluster::PathClass::network:
      line.latency = kNetBase + std::max(0.0, to_seconds(path.latency) - 1.5e-6);
      line.bandwidth = rate;
      break;
  }
  line.floor = rate > 0 ? (path.kind == cluster::PathClass::self ? 2 : 1) / rate : 0;
  return line;
}

int direct_channels(const cluster::Path& path, double bytes) {
  constexpr double kPart = 65536;  // bytes: the least that NCCL gives a channel
  double most = 2;                 // PCIe
  if (path.kind == cluster::PathClass::nvlink) {
    most = 32;
  } else if (path.kind == cluster::PathClass::network) {
    most = std::exp2(std::ceil(std::log2(std::max(2.0, path.bandwidth.count() / 14e9))));
  }
  return static_cast<int>(std::clamp(std::ceil(bytes / kPart), 1.0, most));
}

}  // namespace stepcast::cost
