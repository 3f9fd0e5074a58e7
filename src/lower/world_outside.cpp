// Memory outside the allocator, of the first rank of each program: its communicators and what its
// tasks run on them.
#include <algorithm>
#include <numeric>

#include "outside.h"
#include "world_draft.h"

namespace stepcast::lower {

using cluster::GroupShape;
using program::kNone;

namespace {

// A rank with those it sends to and receives from.
GroupShape neighbours_of(const WorldDraft& w, int rank) {
  std::vector<int> ranks = {rank};
  for (std::uint32_t role = 0; role < kSendContext; ++role) {
    const auto id = w.world.channel_table[static_cast<std::size_t>(rank) * kChannelRoles + role];
    if (id != kNone) {
      const program::Channel& c = w.world.channels[id];
      ranks.push_back(
          static_cast<int>(c.sender == program::RankId::at(rank) ? c.receiver : c.sender));
    }
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return w.topology.shape(ranks);
}

std::vector<UsedGroup> groups_of(const WorldDraft& w, int rank, const GroupShape& world) {
  const program::Program& p = w.world.programs[w.world.ranks[rank].program];
  std::vector<unsigned> algorithms(kRoles, 0);
  std::vector<bool> tokens(kRoles, false);
  bool messages = false;
  const auto table = static_cast<std::size_t>(rank) * kRoles;
  for (const program::Task& t : p.tasks) {
    if (t.kind == program::TaskKind::exchange) {
      messages = messages || std::any_of(p.transfers.begin() + t.first_transfer,
                                         p.transfers.begin() + t.first_transfer + t.transfers,
                                         [](const auto& x) { return x.channel < kSendContext; });
      continue;
    }
    const auto id = t.kind == program::TaskKind::collective
                        ? w.world.communicator_table[table + t.communicator]
                        : program::CommunicatorId{kNone};
    if (id == kNone || w.world.communicators[id].size <= 1) {
      continue;
    }
    const DraftShape& s = w.shapes[w.world.communicators[id].shape];
    if (s.tokens[t.price]) {
      tokens[t.communicator] = true;
    } else {
      algorithms[t.communicator] |= cost::bit(s.algorithms[t.price]);
      // Where switches multicast, NVLS is connected too: eight B200 that gather and reduce under
      // FSDP2 hold its buffers beside two communicators' rings (tests/laws/outside.cpp).
      constexpr std::int64_t kLarge = 1 << 20;
      const std::int64_t bytes =
          w.world.shapes[w.world.communicators[id].shape].prices[t.price].bytes.count();
      if (s.group.nvls && s.group.domains == 1 && s.group.ranks > 2 && bytes >= kLarge) {
        algorithms[t.communicator] |= cost::bit(cost::Algorithm::nvls);
      }
    }
  }
  // The group of all ranks, on which barriers and the loss are summed: the framework's default
  // one, and Megatron-LM's for the norm where that is of all ranks. FSDP2's norms run on its
  // mesh.
  const unsigned few =
      w.plan.grid.ranks() > 1
          ? cost::bit(w.prices.collectives->price(cost::Collective::all_reduce, Bytes(4), world)
                          .algorithm)
          : 0;
  if (w.plan.optimizer_step.norm_has_its_group) {
    const auto norm = w.world.communicator_table[table + kNorm];
    if (norm != kNone &&
        w.world.communicators[norm].size == static_cast<std::uint32_t>(w.plan.grid.ranks())) {
      algorithms[kNorm] = 0;
    }
  } else {
    algorithms[kNorm] = 0;
  }
  std::vector<UsedGroup> out;
  if (few != 0) {
    out.push_back({"all ranks", world, few, false});
  }
  for (std::uint32_t role = 0; role < kRoles; ++role) {
    if (algorithms[role] != 0 || tokens[role]) {
      const auto id = w.world.communicator_table[table + role];
      out.push_back({group_name(role), w.shapes[w.world.communicators[id].shape].group,
                     algorithms[role], tokens[role]});
    }
  }
  if (messages) {
    out.push_back({"pipeline", neighbours_of(w, rank), cost::bit(cost::Algorithm::direct), false});
  }
  return out;
}

}  // namespace

void weigh_outside(WorldDraft& w) {
  std::vector<int> all(static_cast<std::size_t>(w.plan.grid.ranks()));
  std::iota(all.begin(), all.end(), 0);
  const GroupShape world = w.topology.shape(all);
  std::vector<char> done(w.world.programs.size(), 0);
  for (int r = 0; r < w.plan.grid.ranks(); ++r) {
    const program::ProgramId id = w.world.ranks[r].program;
    if (done[id] == 0) {
      done[id] = 1;
      program::Program& p = w.world.programs[id];
      p.outside_parts = lower::outside_parts(w.plan, w.topology.device(r), groups_of(w, r, world));
      for (const auto& [name, bytes] : p.outside_parts) {
        p.outside_allocator = p.outside_allocator + bytes;
      }
    }
  }
}

}  // namespace stepcast::lower
