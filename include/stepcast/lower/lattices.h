// What jobs of one grid on one cluster have in common: communicators, channels and the resources that they use.
#pragma once

#include <memory>
#include <vector>

#include "stepcast/cluster/topology.h"

namespace stepcast::lower {

struct Lattice;
struct RankLayout;

// Those of the last few grids and clusters. What is kept is used for the same Topology, not for one built again.
class LatticeMemo {
 public:
  LatticeMemo();
  ~LatticeMemo();
  LatticeMemo(LatticeMemo&&) noexcept;
  // Valid until the next call.
  const Lattice& of(const RankLayout& layout, const cluster::Topology& topology);

 private:
  struct Known;
  std::vector<std::unique_ptr<Known>> known_;  // the last used first
};

}  // namespace stepcast::lower
