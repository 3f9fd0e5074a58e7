// The discrete-event engine: a World in, a Timeline out. Exact in integer picoseconds,
// deterministic, no globals.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
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
  // Called with the finished timeline before allocator traces are made: false leaves them out. A world that is run in parts
  // is traced without asking.
  std::function<bool(const program::Timeline& without)> memory_if = nullptr;
  bool skip_repeats = true;    // jump over passes that repeat within a step; the same results without
  bool sensitivities = false;  // walk the critical path
  // Large worlds whose ranks fall into parts alike, as replicas are, are run in parts of at least so many tasks a step.
  std::uint64_t least_tasks_of_part = std::uint64_t{1} << 18;
  int threads = 1;             // 0: as many as there are cores. The results are the same, whatever they are
  const Stop* stop = nullptr;  // asked: run() throws Stopped within some milliseconds
};

// Runs until two successive steps have equal period and equal ledger. Cost: O(tasks log) time,
// memory per rank a few hundred bytes beside the World. A deadlock is a value that names its wait
// cycle.
std::variant<program::Timeline, program::Deadlock> run(const program::World& world, const Options& options = {});

// What runs work out of programs alone. Worlds may share it that have the very same programs: not copies, but a vector that
// was moved from one to the other and is unchanged, except for labels, curves and memory outside the allocator.
class Prepared {
 public:
  Prepared();
  ~Prepared();
  Prepared(Prepared&&) noexcept;
  Prepared& operator=(Prepared&&) noexcept;

  struct Programs;  // of the implementation
  // Made anew for programs that lie elsewhere than those before.
  Programs& of(const std::vector<program::Program>& programs, int threads = 1);

 private:
  std::unique_ptr<Programs> of_;
};
// The memory of each rank as a run's timeline has it, without a run: all else, and times, are left at their beginnings.
std::vector<program::RankResult> memory_of(const program::World& world, Prepared& prepared);
// The same as without `prepared`.
std::variant<program::Timeline, program::Deadlock> run(const program::World& world, const Options& options,
                                                       Prepared& prepared);

}  // namespace stepcast::engine
