// Communicators of a lattice.
#include <algorithm>

#include "lattice_draft.h"

namespace stepcast::lower {

using cluster::GroupShape;
using program::kNone;

namespace {

// Number of a shape, made where it is new.
program::ShapeId shape_id(LatticeDraft& w, Role role, const GroupShape& shape) {
  for (std::uint32_t i = 0; i < w.out.shapes.size(); ++i) {
    if (w.out.shapes[i].role == role && w.out.shapes[i].group == shape) {
      return program::ShapeId::at(i);
    }
  }
  w.out.shapes.push_back({role, shape, {}, {}, false, {}, {}});
  return program::ShapeId::at(w.out.shapes.size() - 1);
}

// The streams on which a role's collectives move bytes (StreamClass). Tensor collectives and
// whatever else runs on or in lockstep with the compute stream are class 0.
int stream_class(const LatticeDraft& w, Role role) {
  switch (role) {
    case kData:
    case kReplicas:
    case kAllData:
    case kExpertData:
    case kExpertReplicas:
    case kAllExpertData:
    case kPartition:
    case kNode:
    case kAcross: {
      return w.layout.data_beside ? kBeside : kInLine;
    }
    case kContext:
    case kContextInner:
      return kRound;
    case kExpert:
    case kExpertTensor:
    case kTensorExpert:
      return kExperts;
    default:
      return kInLine;
  }
}

void add_group(LatticeDraft& w, Role role, const std::vector<int>& ranks) {
  const GroupShape shape = w.topology.shape(ranks);
  program::Communicator c;
  c.shape = shape_id(w, role, shape);
  c.members = c.size = static_cast<std::uint32_t>(ranks.size());
  const auto id = program::CommunicatorId::at(w.out.communicators.size());
  w.out.communicators.push_back(c);
  w.groups.push_back({w.members.size(), ranks.size(), shape.domains > 1,
                      shape.crosses_core
                          ? std::max(1, shape.nics_per_domain / std::max(1, shape.nics_per_leaf))
                          : 0,
                      shape.crosses_pcie_switch, shape.crosses_socket});
  w.members.insert(w.members.end(), ranks.begin(), ranks.end());
  for (int r : ranks) {
    w.out.communicator_table[std::size_t(r) * kRoles + role] = id;
    if (ranks.size() > 1) {
      const int k = stream_class(w, role);
      if (shape.ranks_per_domain > 1) {
        w.users.add(w.topology.nvlink_port(r), r, k);
      }
      if (shape.domains > 1) {
        w.users.add(w.topology.nic_out(r), r, k);
        w.users.add(w.topology.nic_in(r), r, k);
      }
      if (shape.crosses_spine || shape.pairs_cross_spine) {
        w.users.add(w.topology.spine(r), r, k);
      }
      if (shape.crosses_core) {
        w.users.add(w.topology.core(r), r, k);
      }
      if (shape.crosses_pcie_switch) {
        w.users.add(w.topology.pcie_uplink(r), r, k);
      }
      if (shape.crosses_socket) {
        w.users.add(w.topology.socket_link(r), r, k);
      }
    }
  }
}

}  // namespace

void make_groups(LatticeDraft& w) {
  const auto n = static_cast<std::size_t>(w.layout.groups.grid.ranks());
  w.out.communicator_table.assign(n * kRoles, kNone);
  each_group(w.layout.groups,
             [&](Role role, const std::vector<int>& ranks) { add_group(w, role, ranks); });
}

}  // namespace stepcast::lower
