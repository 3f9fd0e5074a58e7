// LAW: broadcast and reduce run along the ring, cut open at the root: every rank passes the whole
// buffer on, so bandwidth = bus; latency = base + ranks * hop. Chunks are pipelined, so a chain
// of k hops through NICs delivers the last chunk k-1 chunk times after the first hop has sent it:
// T = (k-1) c/B + S/B with chunks of c bytes; c = S where the buffer is a single chunk.
//
// SOURCE: tuning.cc (broadcast and reduce: nSteps * hop, the tree's hop for Simple); a proxy sends
// steps of 512 KiB a channel (4 MiB buffer in 8 steps, BROADCAST_CHUNKSTEPS 1). Inside a node, logs
// of 2 to 8 A100 (calibration/nccl/data/a100-sxm.csv) show no more than a hop for a further GPU.
#include <algorithm>

#include "line.h"

namespace stepcast::cost {

Line chain_line(const Situation& s, double bus, Protocol protocol) {
  constexpr double kStep = 512 * 1024;  // bytes of one step of one channel's buffer
  const bool simple = protocol == Protocol::simple;
  const bool network = s.domains > 1 && !s.pcie_between;
  const Hop hop = s.domains > 1 ? inter_hop(s) : intra_hop(s);
  Line line{Algorithm::ring, protocol, base_latency(Algorithm::ring, protocol), bus};
  line.latency += s.ranks * hop_latency(hop, simple ? Algorithm::tree : Algorithm::ring, protocol);
  if (network && simple) {
    line.fill_hops = s.domains - 2;
    line.fill_bytes = kStep * s.channels;
  }
  return line;
}

}  // namespace stepcast::cost
