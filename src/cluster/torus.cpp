#include "torus.h"

#include <algorithm>
#include <cstdint>

namespace stepcast::cluster {

int Torus::steps(int dimension, int from, int to) const {
  const auto d = static_cast<std::size_t>(dimension);
  const int ahead = to - from;
  if (!wraps[d]) {
    return ahead;
  }
  const int round = ((ahead % size[d]) + size[d]) % size[d];
  return 2 * round <= size[d] ? round : round - size[d];
}

std::optional<std::string> make_torus(const job::Fabric& fabric, int chips, Torus& torus) {
  torus.dimensions =
      fabric.torus.empty() ? fabric.torus_dimensions : static_cast<int>(fabric.torus.size());
  if (torus.dimensions > 3) {
    return "a torus has at most 3 dimensions";
  }
  torus.chip_links = 2 * torus.dimensions;
  if (fabric.torus.empty()) {
    // The most cubic box, or the most square rectangle: the largest divisor up to the cube root,
    // then up to the square root of the rest.
    const auto divisor = [](int n, int power) {
      int best = 1;
      for (int d = 1;; ++d) {
        std::int64_t p = 1;
        for (int i = 0; i < power; ++i) {
          p *= d;
        }
        if (p > n) {
          return best;
        }
        best = n % d == 0 ? d : best;
      }
    };
    torus.size[0] = divisor(chips, torus.dimensions);
    torus.size[1] =
        torus.dimensions == 3 ? divisor(chips / torus.size[0], 2) : chips / torus.size[0];
    torus.size[2] = chips / torus.size[0] / torus.size[1];
  } else {
    std::int64_t all = 1;
    std::string shown;
    for (std::size_t d = 0; d < fabric.torus.size(); ++d) {
      torus.size[d] = fabric.torus[d];
      if (torus.size[d] < 1) {
        return "a dimension of a torus is at least 1";
      }
      all *= torus.size[d];
      shown += (d == 0 ? "" : " x ") + std::to_string(torus.size[d]);
      if (all > chips) {
        break;
      }
    }
    if (all != chips) {
      return "a torus of " + shown + " does not hold the cluster's " + std::to_string(chips) +
             " chips";
    }
  }
  for (std::size_t d = 0; d < 3; ++d) {
    torus.wraps[d] = torus.size[d] > 1 && static_cast<int>(d) < torus.dimensions &&
                     (fabric.torus_block <= 0 || torus.size[d] % fabric.torus_block == 0);
  }
  return std::nullopt;
}

TorusSpan span_of(const Torus& torus, std::span<const int> slots) {
  std::array<std::vector<char>, 3> seen;
  for (std::size_t d = 0; d < 3; ++d) {
    seen[d].assign(static_cast<std::size_t>(torus.size[d]), 0);
  }
  for (const int slot : slots) {
    const auto at = torus.at(slot);
    for (std::size_t d = 0; d < 3; ++d) {
      seen[d][static_cast<std::size_t>(at[d])] = 1;
    }
  }
  TorusSpan span;
  std::int64_t box = 1;
  for (std::size_t d = 0; d < 3; ++d) {
    int count = 0;
    int first = -1;
    int last = -1;
    int stride = 0;  // -1: uneven
    for (int i = 0; i < torus.size[d]; ++i) {
      if (seen[d][static_cast<std::size_t>(i)] != 0) {
        stride = count == 0 ? 0 : count == 1 ? i - last : stride == i - last ? stride : -1;
        first = count == 0 ? i : first;
        last = i;
        ++count;
      }
    }
    box *= count;
    if (count < 2) {
      continue;
    }
    // Unevenly spaced members share one link's rate over the distance from the first to the last.
    const bool ring = torus.wraps[d] && stride > 0 && count * stride == torus.size[d];
    const int shared = stride > 0 ? stride : last - first;
    span.rings += ring ? 1 : 0;
    span.links += (ring ? 2.0 : torus.cables(static_cast<int>(d))) / shared;
  }
  if (box != static_cast<std::int64_t>(slots.size())) {
    return {0, slots.size() > 1
                   ? 1.0
                   : 0.0};  // not a box: one ring in slot order, with at most one link's rate
  }
  return span;
}

}  // namespace stepcast::cluster
