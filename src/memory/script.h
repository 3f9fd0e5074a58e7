// What a step's allocator trace asks of the allocator, tensor by tensor. A transient buffer stands
// for a pass: its blocks, those of the buffers that the pass makes and those of the buffers that it
// gives up, in the order of the pass's operators.
#pragma once

#include <cstdint>
#include <vector>

#include "stepcast/program/program.h"
#include "stepcast/program/timeline.h"

namespace stepcast::memory {

// One allocation or release of a pass. Passes of equal shape share their calls, so these name
// buffers by role.
struct Call {
  std::int64_t bytes = 0;
  std::uint32_t fraction = 0;  // of the pass's host time that lies before it, times 2^16
  std::uint32_t block = 0;     // of its buffer, counted from 0
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
  skip,      // not on the device, or what a pass does
  allocate,  // every block of the buffer
  release,   // those that are left
  pass,
};

struct Script {
  std::vector<Action> actions;      // by event of the trace
  std::vector<std::uint32_t> pass;  // by event: into `passes`
  std::vector<Pass> passes;
  std::vector<Call> calls;
  std::vector<std::uint32_t> roles;  // buffers
  std::vector<std::uint32_t> first;  // by buffer: its first tensor; one entry more than buffers
};

Script compile(const program::Program& program, const std::vector<program::MemoryEvent>& trace);

}  // namespace stepcast::memory
