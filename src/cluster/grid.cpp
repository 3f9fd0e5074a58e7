// LAW: with the order's extents e1, e2, ... (the leftmost varies fastest), rank = c1 + e1 * (c2 +
// e2 * (c3 + ...)). "ep" has no extent of its own: expert groups are cut out of the data-parallel
// (and context) ranks.
#include <utility>
#include <vector>

#include "stepcast/cluster/topology.h"

namespace stepcast::cluster {
namespace {

// Calls `visit(extent, member)` for each axis that has an extent, from the one that varies fastest.
// Every rank of a world asks, several times: an axis is known by its first letter.
template <class Visit>
void axes(const Grid& grid, const Visit& visit) {
  constexpr std::size_t kAxis = 3;  // "tp-"
  const std::string& order = grid.order;
  for (std::size_t i = 0; i < order.size(); i += kAxis) {
    const bool named = i + 1 < order.size() && order[i + 1] == 'p' &&
                       (i + 2 == order.size() || order[i + 2] == '-');
    switch (named ? order[i] : '?') {
      case 't':
        visit(grid.tensor, &Coordinates::tensor);
        break;
      case 'c':
        visit(grid.context, &Coordinates::context);
        break;
      case 'd':
        visit(grid.data, &Coordinates::data);
        break;
      case 'p':
        visit(grid.pipeline, &Coordinates::pipeline);
        break;
      case 'e':
        break;
      default:
        STEPCAST_CHECK(false, "order of ranks names tp, cp, ep, dp, pp: " + grid.order);
    }
  }
}

}  // namespace

Coordinates coordinates(const Grid& grid, int rank) {
  Coordinates at;
  axes(grid, [&](int extent, int Coordinates::*member) {
    at.*member = rank % extent;
    rank /= extent;
  });
  STEPCAST_CHECK(rank == 0, "rank lies outside the grid");
  return at;
}

int rank_at(const Grid& grid, const Coordinates& at) {
  int rank = 0;
  int stride = 1;
  axes(grid, [&](int extent, int Coordinates::*member) {
    rank += at.*member * stride;
    stride *= extent;
  });
  return rank;
}

bool same_places(const Grid& a, const Grid& b) {
  std::vector<std::pair<int, int Coordinates::*>> of_a, of_b;
  const auto list = [](const Grid& grid, auto& out) {
    axes(grid, [&](int extent, int Coordinates::*member) {
      if (extent > 1) {
        out.emplace_back(extent, member);
      }
    });
  };
  list(a, of_a);
  list(b, of_b);
  return of_a == of_b;
}

}  // namespace stepcast::cluster
