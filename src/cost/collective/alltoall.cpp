// LAW: every rank sends n-1 parts of bytes/n, those inside its domain over NVLink beside those
// outside over its NICs; the slower side decides. NCCL has no cost model for it: a base, and per
// peer a step that nccl-tests of 2 to 512 GPUs show (calibration/nccl: DGX A100, 16 GPUs 58 us;
// Polaris, 32 GPUs 130-170 us; one NVLink domain of 8, 7 to 12 us).
#include <algorithm>

#include "line.h"

namespace stepcast::cost {

Line pairwise_line(const Situation& s, Collective op, Protocol protocol) {
  if (op != Collective::all_to_all || protocol != Protocol::simple) {
    return {};
  }
  constexpr double kBase = 6.6e-6;  // seconds, as NCCL's low-latency base
  constexpr double kNear = 0.3e-6;  // per peer over NVLink
  constexpr double kNearPcie = 0.6e-6;
  constexpr double kFar = 4e-6;  // per peer through a NIC: one proxy serves them in turn
  const int near = s.per_domain - 1;
  const int far = s.ranks - s.per_domain;
  const double latency = kBase + near * (s.nvlink ? kNear : kNearPcie) +
                         far * (s.pcie_between ? kNearPcie : kFar + s.net_latency);
  double slow = near / (s.ranks * s.intra);
  if (far > 0) {
    slow = std::max(slow, static_cast<double>(far) / s.ranks * s.per_domain / s.net);
  }
  return {Algorithm::pairwise, protocol, latency, 1 / slow};
}

Traffic pairwise_traffic(const Situation& s, Collective, double bytes) {
  const double part = bytes / s.ranks;
  const int far = s.ranks - s.per_domain;
  Traffic t;
  t.nvlink = part * (s.per_domain - 1);
  if (far > 0 && s.nics > 0) {
    const double out = part * far * s.per_domain;
    t.nic = out / s.nics;
    // Every domain below a leaf sends to all domains that lie elsewhere.
    const double elsewhere = s.domains - s.domains_per_leaf;
    t.spine = t.nic * s.nics_per_leaf * s.domains_per_leaf * elsewhere / (s.domains - 1);
  }
  return t;
}

}  // namespace stepcast::cost
