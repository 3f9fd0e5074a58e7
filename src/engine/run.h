// A run of one world, or of a part of one, on one thread.
#pragma once

#include <cstdint>
#include <variant>

#include "digest.h"
#include "machine.h"
#include "prepared.h"
#include "stepcast/engine/engine.h"

namespace stepcast::engine {

// What all parts of a world find, if they are the course of the whole world.
struct Course {
  Time period{0};
  Time spread{0};
  Time origin{0};
  bool periodic = false;
  bool overtaken = false;  // run again, with hosts that do not lead
  int steps = 0;
  std::uint64_t tasks = 0;
  std::uint64_t events = 0;
  std::uint64_t shared_events = 0;
  std::uint64_t skipped = 0;
  Digest met;  // of what they share, and of when the last rank ended each step
  bool operator==(const Course&) const = default;
};

struct Run {
  std::variant<program::Timeline, program::Deadlock> outcome;
  Course course;
};

// `share` as in Machine: null for a whole world.
Run run_once(const program::World& world, const Options& options, Prepared::Programs& programs,
             const Share* share);

}  // namespace stepcast::engine
