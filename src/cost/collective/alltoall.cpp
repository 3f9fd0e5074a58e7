// LAW: grouped sends and receives. In an all-to-all every rank sends n-1 parts of bytes/n; in a
// gather or scatter only the root receives or sends n-1 parts. Parts for the same domain go over
// NVLink and at the same time the others over NICs; the slower side decides. NCCL has no cost model
// for it (line.h).
#include <algorithm>

#include "line.h"

namespace stepcast::cost {
namespace {

bool rooted(Collective op) { return op == Collective::gather || op == Collective::scatter; }

// Share of the bytes that leave a leaf's ports that crosses the spine. Without PXN, data for
// another rail crosses it even inside the pod.
double spine_share(const Situation& s) {
  const double elsewhere =
      s.domains > 1 ? (s.domains - s.domains_per_leaf) / (s.domains - 1.0) : 0.0;
  if (s.pxn || s.nics_per_leaf <= 0 || s.nics <= s.nics_per_leaf) {
    return elsewhere;
  }
  const double same_rail = static_cast<double>(s.nics_per_leaf) / s.nics;
  return 1 - same_rail * (1 - elsewhere);
}

}  // namespace

Line pairwise_line(const Situation& s, Collective op, Protocol protocol) {
  if ((op != Collective::all_to_all && !rooted(op)) || s.torus || protocol != Protocol::simple) {
    return {};
  }
  const int near = s.per_domain - 1;
  const int far = s.ranks - s.per_domain;
  const double latency = kSendBase + near * (s.nvlink ? kSendNear : kSendPcie) +
                         far * (s.pcie_between ? kSendPcie : kSendFar + s.net_latency);
  double slow = near / (s.ranks * s.intra);
  if (far > 0) {
    // In a gather or scatter only the root's own NIC is busy.
    const int senders = rooted(op) ? std::max(1, s.nics) : s.per_domain;
    slow = std::max(slow, static_cast<double>(far) / s.ranks * senders / s.pairs_net());
  }
  return {Algorithm::pairwise, protocol, latency, 1 / slow};
}

Traffic pairwise_traffic(const Situation& s, Collective op, double bytes) {
  const double part = bytes / s.ranks;
  const int far = s.ranks - s.per_domain;
  Traffic t;
  t.nvlink = part * (s.per_domain - 1);
  if (far > 0 && s.nics > 0) {
    const bool root = rooted(op);
    t.nic = root ? part * far : part * far * s.per_domain / s.nics;
    t.spine = t.nic * (root ? 1 : s.nics_per_leaf * s.domains_per_leaf) * spine_share(s);
  }
  return t;
}

}  // namespace stepcast::cost
