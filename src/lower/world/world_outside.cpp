// Memory outside the allocator, of the first rank of each program: its communicators and what its
// tasks run on them.
#include <algorithm>
#include <numeric>

#include "distinct_tasks.h"
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

// What a sum of a few bytes connects on a group. Latencies decide it, so the collisions of its
// routes are not drawn.
unsigned sum_on(const WorldDraft& w, GroupShape shape) {
  shape.hash = shape.pairs_hash = {};
  if (shape.named) {
    shape.named->hash = shape.named->pairs_hash = {};
  }
  return cost::bit(
      w.prices.collectives->price(cost::Collective::all_reduce, Bytes(4), shape).algorithm);
}

const GroupShape& shape_of(const WorldDraft& w, std::size_t place) {
  return w.shapes[w.world.communicators[w.world.communicator_table[place]].shape].group;
}

std::vector<UsedGroup> groups_of(const WorldDraft& w, int rank, const GroupShape& world) {
  const program::Program& p = w.world.programs[w.world.ranks[rank].program];
  std::vector<unsigned> algorithms(kRoles, 0);
  std::vector<bool> tokens(kRoles, false);
  bool messages = false;
  const auto table = static_cast<std::size_t>(rank) * kRoles;
  std::vector<std::vector<char>> seen(kRoles);  // by role and price: of very many tasks
  for_each_distinct_task(p, [&](const program::Task& t) {
    if (t.kind == program::TaskKind::kernel) {
      return;
    }
    if (t.kind == program::TaskKind::exchange) {
      messages = messages || std::any_of(p.transfers.begin() + t.first_transfer,
                                         p.transfers.begin() + t.first_transfer + t.transfers,
                                         [](const auto& x) { return x.channel < kSendContext; });
      return;
    }
    if (t.kind != program::TaskKind::collective) {
      return;
    }
    std::vector<char>& prices = seen[t.communicator];
    if (t.price < prices.size() && prices[t.price] != 0) {
      return;
    }
    prices.resize(std::max<std::size_t>(prices.size(), t.price + 1), 0);
    prices[t.price] = 1;
    const auto id = w.world.communicator_table[table + t.communicator];
    if (id == kNone || w.world.communicators[id].size <= 1) {
      return;
    }
    const DraftShape& s = w.shapes[w.world.communicators[id].shape];
    if (s.tokens[t.price]) {
      tokens[t.communicator] = true;
    } else {
      algorithms[t.communicator] |=
          connected_for(s.group, s.algorithms[t.price],
                        w.world.shapes[w.world.communicators[id].shape].prices[t.price].bytes);
    }
  });
  // The group of all ranks, on which barriers and the loss are summed: the framework's default
  // one, which carries the data-parallel collectives as well where those are of all ranks, and
  // Megatron-LM's group for the norm.
  const auto all = static_cast<std::uint32_t>(w.plan.grid.ranks());
  const auto of_all = [&](std::uint32_t role) {
    const auto id = w.world.communicator_table[table + role];
    return id != kNone && w.world.communicators[id].size == all;
  };
  const bool norm_is_summed = algorithms[kNorm] != 0;
  if (!w.plan.optimizer_step.norm_has_its_group || of_all(kNorm)) {
    algorithms[kNorm] = 0;
  }
  // Without a group of its own the norm is summed along one dimension of the mesh after the other.
  if (norm_is_summed && !w.plan.optimizer_step.norm_has_its_group) {
    for (const std::uint32_t role : {std::uint32_t{kData}, std::uint32_t{kTensor}}) {
      algorithms[role] |= algorithms[role] != 0 ? sum_on(w, shape_of(w, table + role)) : 0;
    }
  }
  std::vector<UsedGroup> out;
  const strategy::GradientSync& sync = w.plan.gradient_sync;
  if (all > 1) {
    const unsigned few = sum_on(w, world);
    if (sync.on_default_group && of_all(kData) && algorithms[kData] != 0) {
      algorithms[kData] |= few;
    } else {
      out.push_back({"all ranks", world, few, false});
    }
  }
  for (int n = 0; n < sync.sum_groups && algorithms[kData] != 0 && !of_all(kData); ++n) {
    const GroupShape& shape = shape_of(w, table + kData);
    out.push_back({"sums over data", shape, sum_on(w, shape), false});
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
