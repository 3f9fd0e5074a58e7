// The discrete-event engine: a World in, a Timeline out. Exact in integer picoseconds,
// deterministic, no globals.
#pragma once

#include <variant>
#include <vector>

#include "stepcast/base/stop.h"
#include "stepcast/program/program.h"
#include "stepcast/program/timeline.h"

namespace stepcast::engine {

struct Options {
  int max_steps = 12;          // without a period by then, mean and spread are reported
  int min_steps = 2;           // a period is believed after so many
  bool once = false;           // one step from a common start: `period` is its length, not a period
  bool record_slices = false;  // the reported step's tasks, for traces
  bool record_memory = false;  // allocator traces of one steady step, of all ranks or of these:
  std::vector<program::RankId> memory_of = {};
  bool skip_repeats = true;    // jump over passes that repeat within a step; the same results without
  bool sensitivities = false;  // walk the critical path
  const Stop* stop = nullptr;  // asked: run() throws Stopped within some milliseconds
};

// Runs until two successive steps have equal period and equal ledger. Cost: O(tasks log) time,
// memory per rank a few hundred bytes beside the World. A deadlock is a value that names its wait
// cycle.
std::variant<program::Timeline, program::Deadlock> run(const program::World& world, const Options& options = {});

}  // namespace stepcast::engine
