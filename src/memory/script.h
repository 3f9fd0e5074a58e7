// A step's allocator trace as calls of the allocator, tensor by tensor. A transient buffer stands
// for a pass. The calls of a pass are in the order of its operators: for the transient buffer's
// blocks, the blocks of buffers that the pass makes and those of buffers that it is the last to
// read.
#pragma once

#include <cstdint>
#include <vector>

#include "stepcast/program/program.h"
#include "stepcast/program/timeline.h"

namespace stepcast::memory {

// One allocation or release of a pass. Passes of equal shape share their calls, so these name
// buffers by role.
struct PassCall {
  std::int64_t bytes = 0;
  std::uint32_t fraction = 0;  // share of the pass's host time before the call, times 2^16
  std::uint32_t block = 0;     // index of the block in its buffer
  std::uint16_t role = 0;
  bool allocate = false;
};

struct Pass {
  std::uint32_t first_call = 0;
  std::uint32_t calls = 0;
  std::uint32_t first_role = 0;  // into Script::roles
  std::uint32_t end = 0;         // event of the trace that releases the transient buffer
};

enum class Action : std::uint8_t {
  skip,      // the buffer is not on the device, or a pass makes or releases it
  allocate,  // every block of the buffer
  release,   // the blocks that are left
  pass,
};

struct Script {
  std::vector<Action> actions;      // by event of the trace
  std::vector<std::uint32_t> pass;  // by event: into `passes`
  std::vector<Pass> passes;
  std::vector<PassCall> calls;
  std::vector<program::BufferIndex> roles;
  std::vector<std::uint32_t> first;  // by buffer: its first tensor; one entry more than buffers
};

// Which step a script is of.
enum class Occasion : std::uint8_t { every_step, first_step };

// What a buffer consists of on an occasion.
program::FirstStepBuffer tensors_of(const program::Program& program, program::BufferIndex buffer,
                                    Occasion occasion);
// How many tensors that is: a buffer without blocks is one.
std::uint32_t count_of(const program::Program& program, program::BufferIndex buffer,
                       Occasion occasion);

// Tensors have the same numbers on both occasions, but for those of the first step alone, which
// have numbers of their own behind all others.
Script compile(const program::Program& program, const std::vector<program::MemoryEvent>& trace,
               Occasion occasion = Occasion::every_step);

}  // namespace stepcast::memory
