// Requires that two runs have the same results, to the picosecond.
#pragma once

#include "catch.hpp"
#include "stepcast/program/timeline.h"

namespace stepcast::testing {

inline void same_memory(const program::Timeline& a, const program::Timeline& b) {
  REQUIRE(a.memory.size() == b.memory.size());
  for (std::size_t r = 0; r < a.memory.size(); ++r) {
    REQUIRE(a.memory[r].size() == b.memory[r].size());
    for (std::size_t i = 0; i < a.memory[r].size(); ++i) {
      const program::MemoryEvent& x = a.memory[r][i];
      const program::MemoryEvent& y = b.memory[r][i];
      REQUIRE(x.time == y.time);
      REQUIRE(x.safe == y.safe);
      REQUIRE(x.buffer == y.buffer);
      REQUIRE(x.allocate == y.allocate);
    }
  }
}

inline void same_results(const program::Timeline& a, const program::Timeline& b) {
  REQUIRE(a.period == b.period);
  REQUIRE(a.first_step == b.first_step);
  REQUIRE(a.periodic == b.periodic);
  REQUIRE(a.spread == b.spread);
  REQUIRE(a.steps == b.steps);
  REQUIRE(a.tasks == b.tasks);
  REQUIRE(a.events == b.events);
  for (std::size_t r = 0; r < a.ranks.size(); ++r) {
    REQUIRE(a.ranks[r].breakdown == b.ranks[r].breakdown);
    REQUIRE(a.ranks[r].peak_allocated == b.ranks[r].peak_allocated);
    REQUIRE(a.ranks[r].steady == b.ranks[r].steady);
    REQUIRE(a.ranks[r].peak_at == b.ranks[r].peak_at);
  }
  REQUIRE(a.sensitivity == b.sensitivity);
  REQUIRE(a.path == b.path);
}

}  // namespace stepcast::testing
