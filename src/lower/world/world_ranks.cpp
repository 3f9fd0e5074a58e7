// Ranks of a world.
#include <utility>

#include "world_draft.h"

namespace stepcast::lower {

void make_ranks(WorldDraft& w, Lattice lattice) {
  w.world.ranks.resize(lattice.at.size());
  for (std::size_t r = 0; r < w.world.ranks.size(); ++r) {
    const cluster::Coordinates& at = lattice.at[r];
    const std::size_t kind = w.kinds.kind_of(static_cast<int>(r), at.data);
    program::Rank& rank = w.world.ranks[r];
    rank.program = program::ProgramId::at(kind * static_cast<std::size_t>(w.plan.grid.pipeline) +
                                          static_cast<std::size_t>(at.pipeline));
    rank.first_communicator = static_cast<std::uint32_t>(r * kRoles);
    rank.first_channel = static_cast<std::uint32_t>(r * kChannelRoles);
  }
  w.world.communicator_table = std::move(lattice.communicator_table);
  w.world.channel_table = std::move(lattice.channel_table);
  w.world.communicators = std::move(lattice.communicators);
  w.world.channels = std::move(lattice.channels);
  w.world.usages = std::move(lattice.usages);
  w.world.resources = std::move(lattice.resources);
  w.shapes = std::move(lattice.shapes);
}

}  // namespace stepcast::lower
