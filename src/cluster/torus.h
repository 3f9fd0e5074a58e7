// Tori of chips: where a slot sits, how far two are apart, and the rings that a group closes.
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
  int chip_links = 0;           // two per dimension

  std::array<int, 3> at(int slot) const {
    return {slot % size[0], slot / size[0] % size[1], slot / (size[0] * size[1])};
  }
  int slot(const std::array<int, 3>& at) const {
    return at[0] + size[0] * (at[1] + size[1] * at[2]);
  }
  // Signed steps along a dimension, the short way round; from the middle upwards.
  int steps(int dimension, int from, int to) const;
  // Cables between two neighbours: both of a chip's links where a ring has two chips.
  int cables(int dimension) const {
    return wraps[static_cast<std::size_t>(dimension)] &&
                   size[static_cast<std::size_t>(dimension)] == 2
               ? 2
               : 1;
  }
};

// A reason where the fabric's dimensions do not hold `chips`.
std::optional<std::string> make_torus(const job::Fabric& fabric, int chips, Torus& torus);

// What a group spans. A ring over a whole wrapped dimension runs both ways at once: two links' rate
// for each chip; a part of a dimension is a line, there and back: one. Groups that take every s-th
// chip share the links with the s - 1 others between them.
struct TorusSpan {
  int rings = 0;     // dimensions above 1 spanned whole, with wrap-around
  double links = 0;  // links' worth of ring rate for each chip, all dimensions together
};
TorusSpan span_of(const Torus& torus, std::span<const int> slots);

}  // namespace stepcast::cluster
