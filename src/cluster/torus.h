// Tori of chips: coordinates of slots, distances between them, and the rings through a group.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stepcast/job/job.h"

namespace stepcast::cluster {

struct Torus {
  int dimensions = 0;  // 0: no torus
  std::array<int, 3> size{1, 1, 1};
  std::array<bool, 3> wraps{};  // opposite faces are joined
  int chip_links = 0;           // links of one chip: two per dimension

  std::array<int, 3> at(int slot) const {
    return {slot % size[0], slot / size[0] % size[1], slot / (size[0] * size[1])};
  }
  int slot(const std::array<int, 3>& at) const {
    return at[0] + size[0] * (at[1] + size[1] * at[2]);
  }
  // Signed steps along a dimension in the shorter direction; upwards where both are equally long.
  int steps(int dimension, int from, int to) const;
  // Links between two neighbours: both links of a chip where a ring has only two chips.
  int cables(int dimension) const {
    return wraps[static_cast<std::size_t>(dimension)] &&
                   size[static_cast<std::size_t>(dimension)] == 2
               ? 2
               : 1;
  }
};

// Returns a reason where the fabric's dimensions do not make up `chips`.
std::optional<std::string> make_torus(const job::Fabric& fabric, int chips, Torus& torus);

// The dimensions that a group spans. A ring over a whole wrapped dimension runs in both directions
// at once, with two links' rate for each chip. Over a part of a dimension it runs there and back
// along a line, with one link's rate. A group of every s-th chip shares the links with the s - 1
// groups between them.
struct TorusSpan {
  int rings = 0;     // dimensions above 1 spanned whole, with wrap-around
  double links = 0;  // ring rate of each chip over all dimensions, in multiples of one link's rate
};
TorusSpan span_of(const Torus& torus, std::span<const int> slots);

}  // namespace stepcast::cluster
