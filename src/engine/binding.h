// Which resources can bind at all.
#pragma once

#include <cstdint>
#include <vector>

#include "compile.h"

namespace stepcast::engine {

// What of a program can be under way at once. A stream runs one task at a time, and a transfer
// lasts no longer than the task that sends it.
struct Concurrency {
  using Sends = std::vector<std::uint32_t>;  // channel roles, sorted
  std::vector<std::int64_t> communicators;   // by role: streams that use it
  std::vector<std::vector<Sends>> sends;     // by stream: those of its tasks, each once
  std::int64_t copies = 0;                   // streams that copy
};
Concurrency concurrency(const CompiledProgram& program);

// For each resource, whether everyone who could use it at the same time, each at its highest
// demand, exceeds its capacity. A communicator has at most as many operations under way as a member
// has streams that use it; likewise a rank's copies. A stream sends over its channels what the one
// of its tasks that sends most there does. Resources that cannot bind change no rate.
std::vector<bool> can_bind(const program::World& world, const std::vector<Concurrency>& programs);

}  // namespace stepcast::engine
