// LAW: chips of a torus of k dimensions: the buffer is divided into as many parts as there are
// directed rings, each part goes through the dimensions in an order of its own, and every link is
// busy all the time. All links of a chip together carry (n-1)/n of the buffer in an all-gather or
// reduce-scatter, twice that in an all-reduce; latency = hops of all dimensions one after the
// other. All-to-all is bounded by the bisection: with a chips along a side and links of rate b, S a
// / (8 b).
//
// K slices of n chips each (multislice) do this inside and add a phase between slices, in which
// every chip exchanges its own n-th of the buffer with its peers in the other slices over the
// hosts' adapters: all-reduce = reduce-scatter inside, all-reduce of the parts, all-gather inside.
// Out of a slice go (K-1)/K of the buffer in an all-gather or reduce-scatter, twice that in an
// all-reduce, n times that in an all-to-all. Phases follow each other.
//
// SOURCE: Collective algorithms for multiported torus networks (ACM TOPC, 2015); TPU v4 (ISCA
// 2023); a hop: cluster::kTorusHop; between slices: "How to Scale Your Model" (jax-ml scaling book,
// 2025), part 3, which divides the bytes in the same way, from memory. VALID: equal sides;
// calibration/nccl has no log of a torus.
#include <algorithm>

#include "line.h"

namespace stepcast::cost {
namespace {

int dimensions(const Situation& s) { return std::max(1, s.torus_dimensions); }
int chips(const Situation& s) { return s.domains > 1 ? s.per_domain : s.ranks; }  // of a slice
double side(const Situation& s) {
  return std::pow(static_cast<double>(chips(s)), 1.0 / dimensions(s));
}

// Bytes through a chip's links for one byte of the operation.
double share(const Situation& s, Collective op) {
  const double n = chips(s);
  const double others = (n - 1) / n;
  switch (op) {
    case Collective::all_reduce:
      return 2 * others;
    case Collective::all_to_all:
      // What stays in the slice.
      return n > 1 ? std::max(others, side(s) * dimensions(s) / 4) / s.domains : 0;
    case Collective::broadcast:
    case Collective::reduce:
      return n > 1 ? 1 : 0;
    default:
      return others;
  }
}

// Bytes out of a slice for one byte of the operation.
double share_between(const Situation& s, Collective op) {
  const double others = (s.domains - 1.0) / s.domains;
  switch (op) {
    case Collective::all_reduce:
      return 2 * others;
    case Collective::all_to_all:
      return chips(s) * others;
    case Collective::broadcast:
    case Collective::reduce:
      return s.domains > 1 ? 1 : 0;
    default:
      return others;
  }
}

double steps_between(const Situation& s, Collective op) {
  return (op == Collective::all_reduce ? 2.0 : 1.0) * (s.domains - 1);
}

}  // namespace

Line torus_line(const Situation& s, Collective op, Protocol protocol) {
  if (!s.torus || protocol != Protocol::simple) {
    return {};
  }
  const double round = dimensions(s) * (side(s) - 1);
  const double farthest = dimensions(s) * side(s) / 2;
  const double hops = op == Collective::all_reduce                                       ? 2 * round
                      : op == Collective::all_gather || op == Collective::reduce_scatter ? round
                      : chips(s) > 1                                                     ? farthest
                                                                                         : 0;
  double latency = hops * cluster::kTorusHop;
  if (s.domains == 1) {
    return {Algorithm::torus, protocol, latency, s.intra / share(s, op)};
  }
  const double hop = hop_latency(Hop::net, Algorithm::ring, protocol, s.release) + s.net_latency;
  latency += steps_between(s, op) * hop;
  const double slowness = share(s, op) / s.intra + share_between(s, op) / s.net();
  return {Algorithm::torus, protocol, latency, 1 / slowness};
}

Traffic torus_traffic(const Situation& s, Collective op, double bytes) {
  Traffic t{bytes * share(s, op), 0, 0};
  if (s.domains > 1 && s.nics > 0) {
    t.nic = bytes * share_between(s, op) / s.nics;
    t.spine = t.nic * s.nics_per_leaf;
  }
  return t;
}

}  // namespace stepcast::cost
