#include "predict.h"

#include <algorithm>
#include <cmath>

#include "stepcast/base/diagnostics.h"

namespace stepcast::cost {
namespace {

bool never(const Situation&) { return false; }

// All algorithms. `direct` (a single send) is not among them, since it has a path instead of a
// group: p2p.cpp.
constexpr std::array kAlgorithms = {
    Entry{Algorithm::ring, "ring", ring_line, ring_traffic},
    Entry{Algorithm::tree, "tree", tree_line, tree_traffic},
    Entry{Algorithm::nvls, "nvls", nvls_line, nvls_traffic},
    Entry{Algorithm::nvls_tree, "nvlstree", nvls_tree_line, nvls_tree_traffic},
    Entry{Algorithm::pairwise, "", pairwise_line, pairwise_traffic},
    Entry{Algorithm::collnet_direct, "collnetdirect", collnet_direct_line, collnet_traffic},
    Entry{Algorithm::collnet_chain, "collnetchain", collnet_chain_line, collnet_traffic},
    Entry{Algorithm::pat, "pat", pat_line, pat_traffic, pat_offered},
    Entry{Algorithm::hierarchical, "hierarchical", hierarchical_line, hierarchical_traffic, never},
    Entry{Algorithm::torus, "torus", torus_line, torus_traffic},
    Entry{Algorithm::all_pairs, "", all_pairs_line, all_pairs_traffic},
};

double bytes_time(const Line& line, double bytes) {
  const double share =
      line.algorithm == Algorithm::tree ? tree_correction_smooth(line.protocol, bytes) : 1.0;
  return bytes / (line.bandwidth * share);
}

// The time to fill a pipeline is not divided by e(x): it would fall with size where e rises.
double fill_time(const Line& line, double bytes) {
  return line.fill_hops * std::min(bytes, line.fill_bytes) / line.bandwidth;
}

// Seconds per byte at which the busiest port runs at its line rate.
double floor_of(const Entry& e, const Situation& s, Collective op) {
  const Traffic each = e.traffic(s, op, 1.0);
  double floor = s.link > 0 ? each.nvlink / s.link : 0;
  if (s.port > 0) {
    floor = std::max(floor, each.nic / s.port);
  }
  return floor;
}

}  // namespace

std::span<const Entry> algorithms() { return kAlgorithms; }

void Offer::add(const Line& line) {
  if (line.bandwidth <= 0) {
    return;
  }
  best_bandwidth = std::max(best_bandwidth, line.bandwidth);
  least_latency = count == 0 ? line.latency : std::min(least_latency, line.latency);
  STEPCAST_CHECK(count < static_cast<int>(lines.size()), "more lines than an offer holds");
  lines[static_cast<std::size_t>(count++)] = line;
}

double Offer::axis() const { return best_bandwidth * std::max(least_latency, 1e-9); }

void measure_by(Offer& offer, const Offer& measured, const Channels& channels) {
  for (int i = 0; i < offer.count; ++i) {
    Line& line = offer.lines[static_cast<std::size_t>(i)];
    for (int k = 0; k < measured.count; ++k) {
      const Line& same = measured.lines[static_cast<std::size_t>(k)];
      if (same.algorithm == line.algorithm && same.protocol == line.protocol) {
        if (channels.most) {
          line.bandwidth = std::min(line.bandwidth / channels.left,
                                    same.bandwidth / channels.left_measured * *channels.most);
        }
        const double gain = line.bandwidth / same.bandwidth;
        line.axis = measured.axis() * gain;
        line.fill_bytes = same.fill_bytes * gain;  // the channels that the ring's rate fills
      }
    }
  }
}

Offer offer(const Situation& s, Collective op, Allowed allowed) {
  Offer o;
  for (int a = 0; a < static_cast<int>(kAlgorithms.size()); ++a) {
    const Entry& e = kAlgorithms[static_cast<std::size_t>(a)];
    const unsigned bit = 1U << a;
    if ((allowed.algorithm >= 0 && a != allowed.algorithm) || (allowed.algorithms & bit) == 0) {
      continue;
    }
    const bool named = a == allowed.algorithm || (allowed.named & bit) != 0;
    if (e.offered != nullptr && !named && !e.offered(s)) {
      continue;
    }
    for (int p = 0; p < 3; ++p) {
      if ((allowed.protocol >= 0 && p != allowed.protocol) || (allowed.protocols >> p & 1U) == 0) {
        continue;
      }
      Line line = e.line(s, op, static_cast<Protocol>(p));
      if (line.bandwidth > 0) {
        line.bandwidth *= s.channel_share;
        line.floor = floor_of(e, s, op);
        o.add(line);
      }
    }
  }
  if (o.count == 0) {
    // Where a forced choice does not exist for an operation, NCCL falls back to what exists. The
    // protocol is kept if possible.
    if (allowed.algorithm >= 0 || allowed.algorithms != ~0U) {
      return offer(s, op, {-1, allowed.protocol, ~0U, allowed.protocols, 0});
    }
    if (allowed.protocol >= 0 || allowed.protocols != ~0U) {
      return offer(s, op, {});
    }
  }
  return o;
}

const Line& choose(const Offer& o, const Situation& s, Collective op, double bytes) {
  int best = 0;
  double least = 0;
  for (int i = 0; i < o.count; ++i) {
    const Line& line = o.lines[static_cast<std::size_t>(i)];
    double bandwidth = line.bandwidth;
    double latency = line.latency;
    if (line.algorithm == Algorithm::tree) {
      bandwidth *= tree_correction(line.protocol, bytes);
    }
    // "Plateau of ring": on several nodes NCCL assumes a higher latency of the ring from full
    // chunks on.
    if (line.algorithm == Algorithm::ring && line.protocol == Protocol::simple && s.domains > 1 &&
        op == Collective::all_reduce && bytes / (s.channels * s.ranks) >= 64) {
      latency *= s.arch >= 1 ? 1.4 : 1.9;
    }
    const double time = latency + bytes / bandwidth;
    if (i == 0 || time < least) {
      least = time;
      best = i;
    }
  }
  return o.lines[static_cast<std::size_t>(best)];
}

Fit mix(const Fit& a, const Fit& b, double w) {
  Fit m;
  m.latency = a.latency * (1 - w) + b.latency * w;
  for (std::size_t k = 0; k < kKnots; ++k) {
    m.log2_share[k] = a.log2_share[k] * (1 - w) + b.log2_share[k] * w;
  }
  return m;
}

KnotWeight knot_weight(double x) {
  const double at = std::clamp((x - kFirst) / kStep, 0.0, static_cast<double>(kKnots - 1));
  const int low = std::min(kKnots - 2, static_cast<int>(at));
  return {low, at - low};
}

double log2_share(const Fit& fit, double x) {
  const KnotWeight w = knot_weight(x);
  const auto low = static_cast<std::size_t>(w.low);
  return fit.log2_share[low] * (1 - w.high) + fit.log2_share[low + 1] * w.high;
}

namespace {

// The time of a line that grows with the bytes.
double fluid(const Fit& fit, const Line& line, double axis, double bytes) {
  const double share = std::exp2(log2_share(fit, std::log2(bytes / axis)));
  return std::max(bytes_time(line, bytes) / share, bytes * line.floor) + fill_time(line, bytes);
}

// The tree's correction and the fitted share may together rise faster than the size. Then a larger
// buffer takes as long as the slowest smaller one. The slowest can only be at a knot of either
// curve.
double tree_fluid(const Fit& fit, const Line& line, double axis, double bytes) {
  constexpr int kBack = 8;  // octaves
  double most = fluid(fit, line, axis, bytes);
  double bend = 64 * std::exp2(std::floor(std::log2(std::max(bytes, 64.0) / 64)));
  double knot =
      axis * std::exp2(kFirst + kStep * std::floor((std::log2(bytes / axis) - kFirst) / kStep));
  for (int i = 0; i < kBack; ++i, bend /= 2) {
    most = std::max(most, fluid(fit, line, axis, std::min(bend, bytes)));
  }
  for (int i = 0; i < kBack / 2; ++i, knot /= std::exp2(kStep)) {
    most = std::max(most, fluid(fit, line, axis, std::min(knot, bytes)));
  }
  return most;
}

}  // namespace

Predicted predict(const Offer& o, const Fit& fit, double bytes) {
  if (bytes <= 0) {
    return {fit.latency * o.least_latency, 0};
  }
  Predicted best;
  for (int i = 0; i < o.count; ++i) {
    const Line& line = o.lines[static_cast<std::size_t>(i)];
    const bool tree = line.algorithm == Algorithm::tree;
    const double axis = line.axis > 0 ? line.axis : o.axis();
    const Predicted p{fit.latency * line.latency,
                      tree ? tree_fluid(fit, line, axis, bytes) : fluid(fit, line, axis, bytes)};
    if (i == 0 || p.total() < best.total()) {
      best = p;
    }
  }
  return best;
}

}  // namespace stepcast::cost
