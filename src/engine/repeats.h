// Time is folded inside a step, as ranks are across it: in the steady part of a pipeline the same
// tasks run micro-batch after micro-batch. Where the whole state of a machine is, but for the time,
// what it was some instants ago, and the tasks ahead are those that ran in between, what follows is
// known, and the machine is moved on by whole periods at once. Results are those of running them,
// to the picosecond: times, breakdowns, counts of events and the history.
//
// States are compared at anchors: places of one stream at which a rare sequence of its tasks
// begins. An anchor's state is kept as a digest of 128 bits of what can make a difference later
// (ages of running tasks, kernels' and transfers' remaining work, open rendezvous, pressures), and
// as counters: how far each stream and host is. Equal digests are a candidate: the difference of
// the counters is a shift for every stream, and the jump goes as far as the programs are the same
// under that shift. A host that issued nothing in between must be ahead of all that is jumped over;
// one that issued must be found exactly so again.
//
// A step that comes to a state of the step before, at the same place of every stream, ends as that
// one did (whole_steps.cpp): it is not run to its end.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "digest.h"
#include "machine.h"

namespace stepcast::engine {

// Places of a program's first stream at which the rarest of the sequences behind its middle begins;
// of those that are not too rare. None: no place comes three times.
std::vector<bool> anchors_of(const CompiledProgram& program);

class Repeats {
 public:
  // `whole_steps`: a step that repeats the one before ends the run.
  Repeats(Machine& machine, bool whole_steps);

  // To be called after every instant: jumps if the machine is at an anchor and in a state of
  // before.
  void look();
  // Tasks that were jumped over.
  std::uint64_t skipped() const { return skipped_; }

 private:
  struct Mark {
    Digest digest;
    Time time{0};
    std::vector<std::uint32_t> completed;  // by stream
    std::vector<std::uint32_t> uses;       // parallel to World::communicator_table
    std::vector<std::uint64_t> issued;     // segments, by rank
    std::vector<Breakdown> breakdowns;     // by rank
    std::uint64_t events = 0;
    std::uint64_t shared_events = 0;
    std::uint64_t tasks_done = 0;
    std::size_t before = 0;  // mark of the same digest
  };
  // From a mark to now, for every stream, host and communicator.
  struct Shift {
    Time period{0};
    std::int64_t most = 0;  // periods that can be skipped
    std::vector<std::uint32_t> tasks;
    std::vector<std::uint32_t> uses;
    std::vector<std::uint32_t> segments;
  };

  Machine& machine_;
  std::vector<bool> anchors_;  // by position in the stream of anchors, the first of rank 0
  std::vector<std::uint32_t> first_role_;  // by communicator: an entry of the table that is it
  std::vector<Mark> marks_;                // of this step
  std::unordered_map<std::uint64_t, std::size_t> by_digest_;  // into marks_, the newest
  std::uint64_t skipped_ = 0;
  std::size_t anchors_seen_ = 0;
  bool returned_ = false;     // some state did
  std::size_t measured_ = 0;  // mark from which shift_ is
  std::size_t stride_ = 1;    // of anchors that become marks
  std::uint32_t completed_ = 0;
  std::uint32_t step_ = 0;
  Shift shift_;
  std::vector<bool> like_before_;       // by rank: stands as the rank before
  std::vector<std::uint32_t> differs_;  // by stream: see differs_at

  // whole_steps.cpp
  struct StepMark {
    Mark at;
    std::vector<Time> clocks;  // of hosts, by rank
  };
  // When the last step was over on all ranks.
  struct Finished {
    std::uint32_t steps = 0;
    std::uint64_t events = 0;
    std::uint64_t shared_events = 0;
    std::uint64_t tasks_done = 0;
  };
  std::uint32_t spacing_ = 0;  // of places that whole steps are compared at; 0: they are not
  std::vector<StepMark> step_before_;  // marks of the step before, and of this one
  std::vector<StepMark> step_now_;
  Finished finished_;
  void begin_whole_steps();
  // Whether a step was over on all ranks in the last instant.
  bool note_finished();
  // Whether the step ends as the one before; then the machine is at its end.
  bool ends_alike(const Digest& digest);
  bool same_place(const StepMark& before, const StepMark& now) const;
  bool host_alike(const StepMark& before, const StepMark& now, std::uint32_t rank) const;
  void finish_as(const StepMark& before);

  Mark mark_of(const Digest& digest) const;
  void forget();
  Digest digest(Time now) const;
  void mix_stream(Digest& d, const StreamState& s, Time now) const;
  void mix_rank(Digest& d, const RankState& r, std::uint32_t rank, Time now) const;
  void mix_operation(Digest& d, const Operation& op, std::uint32_t id, Time now) const;
  void keep(const Digest& digest);
  void enter(std::size_t mark);

  std::size_t longest(const Digest& d);
  bool measure(const Mark& from);
  void limit(std::int64_t periods);
  void limit_need(std::uint32_t rs, std::uint32_t need);
  bool host_repeats(const Mark& from, std::uint32_t rank);
  bool bases_repeat(std::uint32_t rank) const;
  bool rest_holds(std::uint32_t rs);
  bool tasks_repeat(const Mark& from, std::uint32_t rs);
  bool stands_as(const Mark& from, std::uint32_t rank, std::uint32_t other) const;
  std::uint32_t differs_at(const Mark& from, std::uint32_t rs, std::uint64_t end) const;
  bool same_waits(const Mark& from, const RankState& r, std::uint32_t step, const CompiledTask& a,
                  const CompiledTask& b) const;
  std::uint32_t held_back(const Mark& from, const StreamState& s, std::uint32_t first,
                          std::uint32_t end) const;

  void jump(const Mark& from);
  void move_rank(const Mark& from, std::uint32_t rank, std::int64_t periods, Time by);
};

}  // namespace stepcast::engine
