// Ranks of a world and their communicators.
#include <algorithm>

#include "groups.h"
#include "world_draft.h"

namespace stepcast::lower {

using cluster::GroupShape;
using program::kNone;

void make_ranks(WorldDraft& w) {
  const int n = w.plan.grid.ranks();
  w.world.ranks.resize(n);
  w.world.communicator_table.assign(std::size_t(n) * kRoles, kNone);
  w.world.channel_table.assign(std::size_t(n) * kChannelRoles, kNone);
  w.at.resize(n);
  for (int r = 0; r < n; ++r) {
    w.at[r] = cluster::coordinates(w.plan.grid, r);
    const std::size_t kind = w.kinds.kind_of(r, w.at[r].data);
    w.world.ranks[r].program =
        program::ProgramId::at(kind * static_cast<std::size_t>(w.plan.grid.pipeline) +
                               static_cast<std::size_t>(w.at[r].pipeline));
    w.world.ranks[r].first_communicator = static_cast<std::uint32_t>(r * kRoles);
    w.world.ranks[r].first_channel = static_cast<std::uint32_t>(r * kChannelRoles);
  }
}

// Tensor collectives and whatever else runs on or in lockstep with the compute stream are class
// 0.
int stream_class(const WorldDraft& w, Role role) {
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
      const bool beside = w.plan.gradient_sync.overlap_stated ||
                          w.plan.parameter_gather.overlap_stated ||
                          w.plan.data_comm == strategy::DataComm::shard_all;
      return beside ? kBeside : kInLine;
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

namespace {

void add_group(WorldDraft& w, Role role, const std::vector<int>& ranks) {
  const GroupShape shape = w.topology.shape(ranks);
  program::Communicator c;
  c.shape = shape_id(w, role, shape);
  c.members = c.size = static_cast<std::uint32_t>(ranks.size());
  const auto id = program::CommunicatorId::at(w.world.communicators.size());
  w.world.communicators.push_back(c);
  w.groups.push_back({w.members.size(), ranks.size(), shape.domains > 1,
                      shape.crosses_core
                          ? std::max(1, shape.nics_per_domain / std::max(1, shape.nics_per_leaf))
                          : 0,
                      shape.crosses_pcie_switch, shape.crosses_socket});
  w.members.insert(w.members.end(), ranks.begin(), ranks.end());
  for (int r : ranks) {
    w.world.communicator_table[std::size_t(r) * kRoles + role] = id;
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

void make_groups(WorldDraft& w) {
  each_group(w.plan, [&](Role role, const std::vector<int>& ranks) { add_group(w, role, ranks); });
}

}  // namespace stepcast::lower
