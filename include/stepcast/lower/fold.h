// Symmetry of a world: ranks that cannot be distinguished are simulated once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "stepcast/program/program.h"

namespace stepcast::lower {

struct Folded {
  program::World world;                 // one rank, communicator, channel and resource per class
  std::vector<std::uint32_t> class_of;  // by rank of the full world: its rank in `world`
};

// Colour refinement over ranks, communicators, channels and resources. It starts from programs, capacities and shapes and
// ends when the partition is equitable. nullopt when there are more than `budget` classes of ranks; the caller then runs
// the full world. Cost: a few passes over all ranks, their roles and their resources.
std::optional<Folded> fold(const program::World& full, std::uint32_t budget = 4096);
// The same without copies of programs and tables: where it folds, `full` has lost them.
std::optional<Folded> fold(program::World&& full, std::uint32_t budget = 4096);

struct FoldInput;

// Folds worlds one after the other and keeps what it found of the last few: jobs that differ in times or in rates have the
// same ranks, groups and resources. What is kept is used where all that folding reads is equal, compared whole.
class FoldMemo {
 public:
  FoldMemo();
  ~FoldMemo();
  FoldMemo(FoldMemo&&) noexcept;
  // As fold().
  std::optional<Folded> fold(program::World&& full, std::uint32_t budget = 4096);

 private:
  struct Known;
  const Known* find_known(const FoldInput& equals, const program::World& full, std::uint32_t budget);
  void keep(std::unique_ptr<Known> one);
  std::vector<std::unique_ptr<Known>> known_;  // the last used first
};

}  // namespace stepcast::lower
