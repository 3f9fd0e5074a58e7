// LAW: chips of a torus of k dimensions: the buffer is divided into as many parts as there are
// directed rings, each part goes through the dimensions in an order of its own, and every link is
// busy all the time. All links of a chip together carry (n-1)/n of the buffer in an all-gather or
// reduce-scatter, twice that in an all-reduce; latency = hops of all dimensions one after the
// other. All-to-all is bounded by the bisection: with a chips along a side and links of rate b, S a
// / (8 b).
//
// SOURCE: Collective algorithms for multiported torus networks (ACM TOPC, 2015); TPU v4 (ISCA
// 2023); a hop: cluster::kTorusHop. VALID: equal sides; calibration/nccl has no log of a
// torus.
#include <algorithm>

#include "line.h"

namespace stepcast::cost {
namespace {

int dimensions(const Situation& s) { return std::max(1, s.torus_dimensions); }
double side(const Situation& s) {
  return std::pow(static_cast<double>(s.ranks), 1.0 / dimensions(s));
}

// Bytes through a chip's links for one byte of the operation.
double share(const Situation& s, Collective op) {
  const double others = (s.ranks - 1.0) / s.ranks;
  switch (op) {
    case Collective::all_reduce:
      return 2 * others;
    case Collective::all_to_all:
      return std::max(others, side(s) * dimensions(s) / 4);
    case Collective::broadcast:
    case Collective::reduce:
      return 1;
    default:
      return others;
  }
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
                                                                                         : farthest;
  return {Algorithm::torus, protocol, hops * cluster::kTorusHop, s.intra / share(s, op)};
}

Traffic torus_traffic(const Situation& s, Collective op, double bytes) {
  return {bytes * share(s, op), 0, 0};
}

}  // namespace stepcast::cost
