// The cluster as an explicit graph: for reports, and as the oracle of path().
#pragma once

#include <vector>

#include "plan.h"
#include "stepcast/cluster/topology.h"

namespace stepcast::cluster {

struct Picture {
  std::vector<Vertex> vertices;
  std::vector<Link> links;
};

Picture draw(const Plan& plan);

// Hops of the shortest way between two vertices along which only switches forward (GPUs and NICs
// are passed only where the way begins or ends), and the widest narrowest-link among all such ways.
// Boost.Graph; linear in links.
struct Way {
  int hops = -1;  // -1: none
  double bandwidth = 0;
};
Way shortest_way(const std::vector<Vertex>& vertices, const std::vector<Link>& links, int from,
                 int to);

}  // namespace stepcast::cluster
