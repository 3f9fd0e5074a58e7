// Communicators and channels of a world and the resources that they use: what depends on where
// ranks stand, and on nothing else of a plan.
#pragma once

#include <vector>

#include "../world/groups.h"
#include "../world/rank_layout.h"
#include "stepcast/cost/collectives.h"
#include "stepcast/program/program.h"

namespace stepcast::lower {

// A shape of communicators or paths, which have prices in common.
struct DraftShape {
  Role role;  // kRoles: a path
  cluster::GroupShape group;
  cluster::Path path;
  cost::PeerGroup peers;  // of a path
  bool copies = false;    // by copy engines: products in chunks (passes_tensor_chunks.cpp)
  std::vector<cost::Algorithm> algorithms = {};  // by price
  std::vector<bool> tokens = {};                 // likewise: by a dispatcher's own kernels
};

struct Lattice {
  std::vector<cluster::Coordinates> at;  // of each rank
  std::vector<program::CommunicatorId> communicator_table;
  std::vector<program::ChannelId> channel_table;
  std::vector<program::Communicator> communicators;
  std::vector<program::Channel> channels;
  std::vector<program::Usage> usages;
  std::vector<program::Resource> resources;
  std::vector<DraftShape> shapes;  // without prices
};

Lattice make_lattice(const RankLayout& layout, const cluster::Topology& topology);

}  // namespace stepcast::lower
