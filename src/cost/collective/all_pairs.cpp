// LAW: a full mesh of n ranks, each pair with links of its own: every rank exchanges its 1/n with
// each of the others at the same time, in one step (all-gather, reduce-scatter) or two (all-reduce:
// reduce-scatter, then all-gather). Each rank passes (n-1)/n of the buffer on in a step, as a ring
// does, so that large buffers take as long as n-1 rings; small ones take one or two hops in place
// of n-1 or 2(n-1).
//
// SOURCE: RCCL's all-pairs kernels (MSCCL) on MI300X, which its tuning takes for small buffers. Its
// latencies are not known here: NCCL's for a ring's hop over NVLink stand in. VALID: AMD's nodes.
#include <algorithm>

#include "line.h"

namespace stepcast::cost {
namespace {

int steps_of(Collective op) {
  return op == Collective::all_reduce                                       ? 2
         : op == Collective::all_gather || op == Collective::reduce_scatter ? 1
                                                                            : 0;
}

}  // namespace

Line all_pairs_line(const Situation& s, Collective op, Protocol protocol) {
  const int steps = steps_of(op);
  if (!s.rccl || !s.all_linked || s.domains > 1 || steps == 0 || protocol == Protocol::ll128) {
    return {};
  }
  const double rate = protocol == Protocol::ll ? s.intra / 2 : s.intra;  // LL: half are flags
  const double latency = base_latency(Algorithm::ring, protocol) +
                         steps * hop_latency(Hop::nvlink, Algorithm::ring, protocol);
  return {Algorithm::all_pairs, protocol, latency, rate * s.ranks / (steps * (s.ranks - 1.0))};
}

Traffic all_pairs_traffic(const Situation& s, Collective op, double bytes) {
  return {bytes * steps_of(op) * (s.ranks - 1) / s.ranks, 0, 0};
}

}  // namespace stepcast::cost
