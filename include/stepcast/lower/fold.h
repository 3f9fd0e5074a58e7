// Symmetry: ranks that cannot be told apart are simulated once.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "stepcast/program/program.h"

namespace stepcast::lower {

struct Folded {
  program::World world;                 // one rank, communicator, channel, resource per class
  std::vector<std::uint32_t> class_of;  // by rank of the full world
};

// Colour refinement over ranks, communicators, channels and resources, from (program, capacities,
// shapes) until the partition is equitable. nullopt when more than `budget` rank classes remain:
// the caller then runs the full world.
std::optional<Folded> fold(const program::World& full, std::uint32_t budget = 4096);

}  // namespace stepcast::lower
