// LAW: one message over one path: base latency of its class + bytes / rate. NCCL has no cost model
// for it; bases are the smallest times of nccl-tests' sendrecv: two H100 over NVLink 4.9 us, two
// nodes 17 us (NDR).
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

namespace {

// NCCL 2.18 graph/topo.cc, ncclTopoGetNchannels, rounded up to a power of two: twice the links of a
// GPU to NVLink's switch (12 and 18 since Ampere), 2 over PCIe, and what the network needs at
// NCCL_P2P_PER_CHANNEL_NET_BW.
double channels_of_peer(cluster::PathClass kind, Bandwidth network) {
  constexpr double kNetChannel = 14e9;  // bytes per second
  switch (kind) {
    case cluster::PathClass::nvlink:
      return 32;
    case cluster::PathClass::network:
      return std::exp2(std::ceil(std::log2(std::max(2.0, network.count() / kNetChannel))));
    default:
      return 2;
  }
}

}  // namespace

// SOURCE: NCCL 2.18 init.cc (p2pnChannelsPerPeer: the least over a communicator's peers) and
// enqueue.cc (scheduleP2pTasksToPlan), the halving and the sizes from memory: a message takes so
// many channels that all peers' messages at once had one each, more where its parts would be large,
// and never so many that a channel served more than four.
int direct_channels(const cluster::Path& path, const PeerGroup& of, double bytes) {
  constexpr double kChannels = 32;  // of a communicator, for messages
  const bool network = path.kind == cluster::PathClass::network;
  const double step = network || path.kind == cluster::PathClass::pcie ? 131072 : 524288;  // bytes
  double peer = channels_of_peer(path.kind, path.bandwidth);
  if (of.network.count() > 0) {
    peer = std::min(peer, channels_of_peer(cluster::PathClass::network, of.network));
  }
  double channels = peer;
  while (channels * of.ranks > kChannels && channels > 1) {
    channels /= 2;
  }
  double most = peer;
  while (most * of.ranks > 4 * kChannels && most > 1) {
    most /= 2;
  }
  while (bytes / channels > 32 * step && channels * 2 <= most) {
    channels *= 2;
  }
  return static_cast<int>(std::clamp(std::ceil(bytes / (step / 8)), 1.0, channels));
}

}  // namespace stepcast::cost
