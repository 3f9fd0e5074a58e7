// LAW: a connection of a channel holds, in the receiver's memory, buffers of all three protocols
// (LL 512 KiB, LL128 4.69 MiB, Simple 4 MiB; over NVLink the sender holds the Simple one, which
// adds up to the same). Per channel a ring has one connection for each rank; a tree's chain inside
// a domain also has connections in the opposite direction; over NICs, LL is in host memory and both
// ends hold the others. A tree of d domains has d - 1 edges. NVLS: channels x 2 x 8 chunks for each
// head, on every rank. Sends and receives have connections of their own to each peer of the domain;
// over NICs they share a pool of 16 chunks for each channel and direction. SOURCE: NCCL 2.30.7,
// src/init.cc (computeBuffSizes), src/transport/p2p.cc, net.cc (sharedBuffersInit), nvls.cc;
// from 2.22 on an algorithm's connections are made at its first use (NCCL_RUNTIME_CONNECT), before
// that those of rings and trees with the communicator, NVLS from 2.17 on. VALID: default
// NCCL_BUFFSIZE and chunk sizes, one process per GPU.
#include "stepcast/cost/buffers.h"

#include <algorithm>
#include <cmath>

#include "../nccl_match.h"
#include "line.h"

namespace stepcast::cost {
namespace {

constexpr double kKiB = 1024;
constexpr double kMiB = 1024 * kKiB;
constexpr double kLl = 8 * 512 * 8 * 16.0;        // steps x threads x lines x bytes: 512 KiB
constexpr double kLl128 = 120.0 * 640 * 8 * 8;    // 4.6875 MiB
constexpr double kSimple = 4 * kMiB;              // NCCL_BUFFSIZE
constexpr double kNear = kLl + kLl128 + kSimple;  // bytes of a connection inside a domain
constexpr double kFar = 2 * (kLl128 + kSimple);   // sending and receiving through a NIC
constexpr double kNvlsChunk = 128 * kKiB;         // NCCL_NVLS_CHUNKSIZE
constexpr double kNetChunk = 128 * kKiB;          // NCCL_P2P_NET_CHUNKSIZE
constexpr double kSharedSteps = 16;               // NCCL_SHARED_STEPS

double ring_bytes(const Situation& s) {
  const double far =
      s.domains > 1 ? 1.0 / s.per_domain : 0;  // share of connections that leave the domain
  return s.channels * ((1 - far) * kNear + far * kFar);
}

double tree_bytes(const Situation& s) {
  const double chain = s.per_domain > 2 ? static_cast<double>(s.per_domain - 1) / s.per_domain : 0;
  const double edges =
      2.0 * (s.domains - 1) / s.domains;  // ends of edges at one domain, on average
  return s.channels * (chain * kNear + edges / s.per_domain * kFar);
}

double nvls_bytes(const Situation& s) {
  Line line;
  line.algorithm = Algorithm::nvls;
  line.protocol = Protocol::simple;
  constexpr double kLarge = 1e9;  // bytes: large enough to use all channels
  constexpr int kArity = 32;      // NCCL_MAX_NVLS_ARITY
  return launch_channels(s, line, kLarge) * 2 * (8 * kNvlsChunk) * std::min(s.per_domain, kArity);
}

double peers_bytes(const Situation& s) {
  constexpr double kPcieChannels = 2;
  const double each = s.nvlink ? std::exp2(std::ceil(std::log2(std::min(32, s.channels))))
                               : kPcieChannels;  // p2pnChannelsPerPeer
  const double near = (s.per_domain - 1) * each * kNear;
  const double pool = std::exp2(std::floor(std::log2(s.channels))) * kSharedSteps * kNetChunk;
  return near + (s.domains > 1 ? 2 * pool : 0);
}

double connections(const Situation& s, unsigned used) {
  const auto uses = [&](Algorithm a) { return (used & bit(a)) != 0; };
  const bool at_once = s.release == Release::v2_18 && used != 0;
  const bool nvls = uses(Algorithm::nvls) || uses(Algorithm::nvls_tree);
  const bool pairs =
      uses(Algorithm::pairwise) || uses(Algorithm::direct) || uses(Algorithm::all_pairs);
  const bool trees = uses(Algorithm::tree) || uses(Algorithm::nvls_tree) || uses(Algorithm::pat);
  const bool rings = uses(Algorithm::ring) || uses(Algorithm::hierarchical) ||
                     uses(Algorithm::collnet_direct) || uses(Algorithm::collnet_chain);
  double bytes = at_once || rings ? ring_bytes(s) : 0;
  bytes += at_once || trees ? tree_bytes(s) : 0;
  bytes += nvls || (at_once && s.nvls && s.per_domain > 1) ? nvls_bytes(s) : 0;
  return bytes + (pairs ? peers_bytes(s) : 0);
}

}  // namespace

Bytes nccl_buffers(const job::Nccl& settings, const cluster::GroupShape& group, unsigned used) {
  const Situation s =
      situate(group, settings.version ? release_of(*settings.version) : Release::current,
              {settings.min_ctas.value_or(0), settings.max_ctas.value_or(0)});
  return Bytes(s.ranks <= 1 || s.torus ? 0 : static_cast<std::int64_t>(connections(s, used)));
}

}  // namespace stepcast::cost
