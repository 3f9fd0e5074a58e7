// What folding reads of a world: neither programs nor times, nor how fast anything is.
#pragma once

#include <cstdint>
#include <vector>

#include "stepcast/program/program.h"

namespace stepcast::lower {

// Roles of a program's ranks.
struct RoleCounts {
  std::uint32_t communicators = 0;
  std::uint32_t channels = 0;
};

struct FoldInput {
  // As they are in the world.
  std::vector<program::Rank> ranks;
  std::vector<program::CommunicatorId> communicator_table;
  std::vector<program::ChannelId> channel_table;
  std::vector<program::Communicator> communicators;
  std::vector<program::Channel> channels;
  std::vector<program::Usage> usages;
  std::vector<std::uint32_t> multiplicity;
  // What equals what.
  std::vector<RoleCounts> roles;          // by program
  std::vector<std::uint32_t> shapes;      // by shape: the first with the same prices
  std::vector<std::uint32_t> capacities;  // by resource: equal numbers, equal capacities
};

// The last three.
FoldInput equals_of(const program::World& w);
void copy_tables(const program::World& from, FoldInput& to);
// Moves the tables.
void take_tables(program::World& from, FoldInput& to);
void give_back_tables(FoldInput& from, program::World& to);

// Whether `known` is what `equals` becomes with the tables of `w`: all of it is compared.
bool same_input(const FoldInput& known, const FoldInput& equals, const program::World& w);

// Bytes that an input holds.
std::size_t size_of(const FoldInput& input);

}  // namespace stepcast::lower
