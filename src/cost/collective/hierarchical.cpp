// LAW: two levels, in phases that follow each other. All-reduce (2-D ring): reduce-scatter inside
// the domain, all-reduce of each member's part along its rail, all-gather inside. All-to-all (2DH):
// members first pass each other the data for their rails, then a rank sends one message to each
// other domain in place of one to each rank there.
//
// SOURCE: X. Jia et al. 2018 (arXiv 1807.11205), H. Mikami et al. 2018 (arXiv 1811.05233) for the
// all-reduce; C. Hwang et al. 2023, Tutel (arXiv 2206.03382) for the all-to-all. They are not
// NCCL's: a framework composes them, so they are used only in a job that names them.
#include <algorithm>

#include "line.h"

namespace stepcast::cost {
namespace {

bool two_levels(const Situation& s) {
  return s.domains > 1 && !s.torus && s.per_domain > 1 && s.ranks == s.domains * s.per_domain;
}

Line all_reduce_line(const Situation& s, Protocol protocol) {
  const Situation in = inside(s);
  const Situation out = across(s);
  const Line scatter = ring_line(in, Collective::reduce_scatter, protocol);
  const Line reduce = ring_line(out, Collective::all_reduce, protocol);
  const Line gather = ring_line(in, Collective::all_gather, protocol);
  if (scatter.bandwidth <= 0 || reduce.bandwidth <= 0 || gather.bandwidth <= 0) {
    return {};
  }
  const double slowness =
      1 / scatter.bandwidth + 1 / (reduce.bandwidth * s.per_domain) + 1 / gather.bandwidth;
  return {Algorithm::hierarchical, protocol, scatter.latency + reduce.latency + gather.latency,
          1 / slowness};
}

Line all_to_all_line(const Situation& s, Protocol protocol) {
  if (protocol != Protocol::simple) {
    return {};
  }
  const double near = s.per_domain - 1;
  const double far = s.domains - 1;
  const double latency = 2 * kSendBase + near * (s.nvlink ? kSendNear : kSendPcie) +
                         far * (s.pcie_between ? kSendPcie : kSendFar + s.net_latency);
  const double slowness = near / s.per_domain / s.intra + far / s.domains * s.per_domain / s.net();
  return {Algorithm::hierarchical, protocol, latency, 1 / slowness};
}

}  // namespace

Line hierarchical_line(const Situation& s, Collective op, Protocol protocol) {
  if (!two_levels(s)) {
    return {};
  }
  return op == Collective::all_reduce   ? all_reduce_line(s, protocol)
         : op == Collective::all_to_all ? all_to_all_line(s, protocol)
                                        : Line{};
}

Traffic hierarchical_traffic(const Situation& s, Collective op, double bytes) {
  const bool exchange = op == Collective::all_to_all;
  Traffic t;
  t.nvlink = (exchange ? 1 : 2) * bytes * (s.per_domain - 1) / s.per_domain;
  if (s.nics > 0) {
    const double out = exchange ? bytes * s.per_domain : 2 * bytes;
    t.nic = out * (s.domains - 1) / s.domains / s.nics;
    const double elsewhere = (s.domains - s.domains_per_leaf) / (s.domains - 1.0);
    t.spine = t.nic * s.nics_per_leaf * (exchange ? s.domains_per_leaf * elsewhere : 1.0);
  }
  return t;
}

}  // namespace stepcast::cost
