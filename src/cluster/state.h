#pragma once

#include <mutex>
#include <vector>

#include "graph.h"
#include "plan.h"
#include "stepcast/cluster/topology.h"

namespace stepcast::cluster {

struct Topology::State {
  Plan plan;
  mutable std::once_flag resources_made;
  mutable std::vector<Resource> resources;
  mutable std::once_flag picture_made;
  mutable Picture picture;
};

}  // namespace stepcast::cluster
