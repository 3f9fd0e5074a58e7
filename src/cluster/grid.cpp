// LAW: with the order's extents e1, e2, ... (the leftmost varies fastest), rank = c1 + e1 * (c2 +
// e2 * (c3 + ...)). "ep" has no extent of its own: expert groups are cut out of the data-parallel
// (and context) ranks.
#include <string_view>

#include "stepcast/cluster/topology.h"

namespace stepcast::cluster {
namespace {

// Calls `visit(extent, member)` for each axis that has an extent, from the one that varies fastest.
template <class Visit>
void axes(const Grid& grid, const Visit& visit) {
  std::string_view order = grid.order;
  while (!order.empty()) {
    const auto dash = order.find('-');
    const auto axis = order.substr(0, dash);
    order = dash == std::string_view::npos ? std::string_view() : order.substr(dash + 1);
    if (axis == "tp") {
      visit(grid.tensor, &Coordinates::tensor);
    } else if (axis == "cp") {
      visit(grid.context, &Coordinates::context);
    } else if (axis == "dp") {
      visit(grid.data, &Coordinates::data);
    } else if (axis == "pp") {
      visit(grid.pipeline, &Coordinates::pipeline);
    } else {
      STEPCAST_CHECK(axis == "ep", "order of ranks names tp, cp, ep, dp, pp: " + grid.order);
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

}  // namespace stepcast::cluster
