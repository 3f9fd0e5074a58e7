// The cluster as an explicit graph, for reports and as the oracle of path().
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

// The shortest path between two vertices on which only switches forward (GPUs and NICs occur only
// at its ends). `hops` is its length; among all paths of that length, the bandwidth is that of the
// one whose narrowest link is widest. COST: linear in links (Boost.Graph).
struct Way {
  int hops = -1;  // -1: none
  double bandwidth = 0;
};
Way shortest_way(const std::vector<Vertex>& vertices, const std::vector<Link>& links, int from,
                 int to);

}  // namespace stepcast::cluster
