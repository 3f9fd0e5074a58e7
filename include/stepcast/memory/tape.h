// A rank's step as a tape of allocator calls, tensor by tensor: what the program's buffers and passes ask of the caching
// allocator, in the order of the host. Times matter to the allocator only in that a block which another stream still uses
// becomes free before one request rather than before the next, so the tape says which: ranks that differ in nothing but
// times make the same calls, and one replay serves them.
#pragma once

#include <cstdint>
#include <vector>

#include "stepcast/program/program.h"
#include "stepcast/program/timeline.h"

namespace stepcast::memory {

// One request or release. Its position is its index in the step.
struct Call {
  std::int64_t bytes = 0;    // request: as asked for, above zero
  std::uint32_t tensor = 0;  // of the tape
  std::uint8_t stream = 0;
  program::MemoryCategory category = program::MemoryCategory::other;
  bool request = false;

  bool operator==(const Call&) const = default;
};

// Calls of the first step, in its order: of every step, or its own, which stand ahead of the call at `position`.
struct Stretch {
  std::uint32_t begin = 0, end = 0;  // into Tape::own or Tape::calls
  std::uint32_t position = 0;        // of calls of its own
  bool own = false;

  bool operator==(const Stretch&) const = default;
};

struct Tape {
  std::vector<Call> calls;  // of every step
  // By position, release: requests from this position on may reuse the memory, 0: all. Positions of the next step go on one
  // behind those of this one, whose end is a position too. Empty: all releases are 0.
  std::vector<std::uint32_t> safe;
  std::vector<Call> making;         // of the model, ahead of all steps; then the cache is emptied
  std::vector<Call> own;            // of the first step alone: what is made before it, and what it alone makes
  std::vector<Stretch> first;       // the first step
  std::vector<std::uint8_t> later;  // by tensor: the first step has no call of it; empty: of none
  std::uint32_t tensors = 0;

  bool operator==(const Tape&) const = default;
};

// Where in a trace a call stands: at an event or, in a pass, which is an event, at a share of the pass's host time, times
// 2^16. Traces that differ in times alone have the same places.
struct TracePlace {
  std::uint32_t event = 0;
  std::uint32_t fraction = 0;
};

// What a tape's calls and tensors stand for.
struct TapeNotes {
  Time period{0};                            // from step to step
  std::vector<TracePlace> place;             // by position
  std::vector<Time> at;                      // by position, in times of the step; the last entry is the step's end
  std::vector<Time> safe;                    // by position, release: when its memory can be used again
  std::vector<program::BufferIndex> buffer;  // by tensor
  std::vector<std::uint32_t> first;          // by buffer: its first tensor; one entry more than buffers
};

struct RecordedTape {
  Tape tape;
  TapeNotes notes;
};

// Of a position of the tape; the last one is the trace's end.
TracePlace place_of(const TapeNotes& notes, std::uint32_t position);
Time time_at(const std::vector<program::MemoryEvent>& trace, TracePlace place);

// Whether any block of a trace waits for another stream when it is released. Where none does, the tape is the same whatever
// the trace's times are.
bool blocks_wait(const std::vector<program::MemoryEvent>& trace);

// `trace` is that of one steady step, in the order of the host (Timeline::memory), which recurs every `period`; 0: the
// trace's length. Buffers that do not lie on the device are left out.
RecordedTape record_tape(const program::Program& program, const std::vector<program::MemoryEvent>& trace, Time period);
// The same in place of what `out` held, in its storage; without times (TapeNotes::at, safe) where no block waits.
void record_tape(const program::Program& program, const std::vector<program::MemoryEvent>& trace, Time period,
                 RecordedTape& out);

// Turns a recorded tape into that of `program`, which differs from the recorded program in sizes alone; no block of either
// waits. What a recorder asks of sizes has to be the same in both: which are zero, and which of the tensors that passes hand
// on are equal. Not for programs whose first step has tensors of its own (Program::first_steps).
void set_sizes(const program::Program& program, RecordedTape& recorded);

}  // namespace stepcast::memory
