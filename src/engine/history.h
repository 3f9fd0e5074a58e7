// The tasks of the last steps, kept when a picture, an allocator trace or the critical path is
// asked for.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "stepcast/program/timeline.h"

namespace stepcast::engine {

class Machine;
struct CompiledProgram;
struct Operation;
struct StreamState;

// A program's allocations and releases in the order of its host, and what their times follow from.
struct HostTrace {
  struct Event {
    Time offset{0};  // host time from the start of its segment
    std::uint32_t segment = 0;
    std::uint32_t held_end = 0;  // `held` up to here hold the host up by then
    std::uint32_t used_end = 0;  // a release: `used` from that of the event before up to here
    program::BufferIndex buffer;
    bool allocate = false;
  };
  struct Tasks {  // the first of a stream
    std::uint32_t stream = 0;
    std::uint32_t tasks = 0;
  };
  std::vector<Event> events;
  std::vector<Tasks> held;  // that have left a launch queue; from the start of the step before
  std::vector<Tasks> used;  // that may use a buffer, on another stream than its own
};
HostTrace host_trace(const CompiledProgram& program);

class History {
 public:
  explicit History(const Machine& machine);

  // Nothing after step `step` is kept from now on, so that nothing up to it is forgotten.
  void keep_until(std::uint32_t step);
  void record(std::uint32_t rs, Time now, const Operation* by);
  // The last `tasks[rs]` tasks of every stream came again and again, `times` times, a period later
  // each, as if recorded. The streams are where they were before.
  void repeat(const std::vector<std::uint32_t>& tasks, std::uint32_t times, Time period);
  // The same, whatever steps the tasks are of. Not with slices.
  void note(std::vector<std::uint32_t> tasks, std::uint32_t times, Time period);
  // Every stream has completed step `step`.
  bool complete(std::uint32_t step) const;

  std::vector<program::Slice> slices(std::uint32_t step, Time origin) const;
  // Allocator trace of one rank's step, at the host's times. The host is held up where more
  // launches than a stream's queue takes are outstanding, which nothing but these times depends on.
  // A use that had not ended is placed one period after that of the step before.
  std::vector<program::MemoryEvent> memory(std::uint32_t rank, std::uint32_t step, Time origin,
                                           Time period) const;
  // The critical path of `span` picoseconds that leads to the end of `step` on `rank`, in seconds:
  // under each curve, and by category.
  struct Path {
    std::vector<double> curves;
    std::array<double, program::kCategories> categories{};
  };
  Path critical_path(std::uint32_t rank, std::uint32_t step, Time span) const;

 private:
  // Eight bytes a task, twelve more a communication task: every rank of a large job fits. Without
  // initial values: what no task has written, nothing reads. When a task arrived follows from the
  // ends of what it waited for.
  struct Span {
    Time arrive;
    Time end;
  };
  struct Meeting {       // of the operation that ended last
    std::uint32_t last;  // stream of its last member to arrive: it began when that arrived
    std::uint32_t last_ordinal;
    std::uint32_t price;  // into prices_
  };
  // The step that is reported, the one before, and the two by which a host, and with it a stream
  // that waits for nothing, may be ahead.
  static constexpr std::uint32_t kSteps = 4;

  const Machine& machine_;
  std::uint32_t last_step_ = program::kNone;
  std::vector<std::uint32_t> completed_;  // by stream: at keep_until
  // Ranks of one program are at the same task at about the same time: what they write of it lies
  // side by side.
  std::vector<std::uint32_t> alike_;                 // by program: ranks that run it
  std::vector<std::size_t> first_;                   // by stream: of its ends within a step
  std::vector<std::size_t> first_meeting_;           // by rank
  std::vector<const std::uint32_t*> meeting_index_;  // by program: of its compiled tasks
  std::size_t ends_per_step_ = 0;
  std::size_t meetings_per_step_ = 0;
  // By step modulo kSteps, made when its first task ends: most runs are two steps.
  struct Step {
    std::unique_ptr<Time[]> ends;
    std::unique_ptr<Time[]> begins;  // parallel to the ends, for slices only
    std::unique_ptr<Meeting[]> meetings;
  };
  std::array<Step, kSteps> steps_;
  std::vector<const program::Price*> prices_;
  std::unordered_map<const program::Price*, std::uint32_t> price_index_;
  const program::Price* last_price_ = nullptr;  // that was looked up
  std::uint32_t last_price_index_ = 0;
  // Tasks that came again, which are not written down, in the order of time.
  struct Jump {
    std::vector<std::uint32_t> from;   // by stream: tasks completed before, since the start
    std::vector<std::uint32_t> tasks;  // by stream: the last that many came again
    std::uint32_t times = 0;
    Time period{0};
  };
  std::vector<Jump> jumps_;

  // The ordinal at which a task of a stream was recorded; calls f(jump, periods) for the jumps that
  // brought it again.
  template <class F>
  std::uint32_t recorded(std::uint32_t rs, std::uint32_t ordinal, const F& f) const;
  void write_again(std::uint32_t rs, const std::vector<std::uint32_t>& tasks, std::uint32_t times,
                   Time period);
  bool kept(std::uint32_t rs, std::uint64_t ordinal) const;
  Time end(std::uint32_t rs, std::uint32_t ordinal) const;
  Span span(std::uint32_t rs, std::uint32_t ordinal) const;
  struct Place {
    std::uint32_t rs = program::kNone;
    std::uint32_t ordinal = 0;
  };
  struct Arrival {
    Time time{0};
    Place by;  // whose end it is; none: of the host, or of the start
  };
  Arrival arrival(Place p) const;
  // Tasks that stream `w.stream` must have completed before a task of `step` waits no more.
  std::uint32_t need(std::uint32_t rank, std::uint32_t step, const program::Wait& w) const;
  // The `ordinal`-th task of a stream since the start; none when not completed or forgotten.
  std::optional<Span> find(std::uint32_t rs, std::uint32_t ordinal) const;
  // When a task ended; one that is not kept, a period after that of the step before. kNever:
  // neither is.
  static constexpr Time kNever = Time::min();
  Time end_of(std::uint32_t rs, std::uint32_t step, std::uint32_t position, Time period) const;
  const Step& step_of(std::uint32_t rs, std::uint32_t ordinal) const;
  std::size_t end_at(std::uint32_t rs, std::uint32_t ordinal) const;
  std::size_t meeting_at(const StreamState& s, std::uint32_t position) const;
  program::ProgramId program_of(const StreamState& s) const;
  Meeting meeting(std::uint32_t rs, std::uint32_t ordinal) const;
  Step& make(std::uint32_t step);
  [[gnu::cold]] void make_room(Step& of) const;
  Place before(Place p, Time& time) const;
  Place before_host(std::uint32_t rank, std::uint32_t step, std::uint32_t segment,
                    Time& time) const;
};

}  // namespace stepcast::engine
