// A program as the engine reads it: per stream a contiguous list of tasks, per host a list of
// segments.
//
// The host runs ahead of the device between syncs, so when it issues a task is the start of its
// segment (the stretch between two syncs) plus a static offset: no event and no storage per launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "stepcast/program/program.h"

namespace stepcast::engine {

constexpr int kMaxStreams = 31;  // bit 31 of a rank's masks is its host

// Without initial values: a step has very many, and compile() writes each whole. What a task is
// comes first, so that two are compared at once; then where and when it is issued.
struct CompiledTask {
  Time duration;
  std::uint32_t communicator;
  std::uint32_t price;
  std::uint16_t waits;
  std::uint16_t transfers;
  program::TaskKind kind;
  std::uint8_t slowdown;
  program::Category category;
  program::Category wait_category;
  Time issue_offset;  // host time from the start of its segment
  std::uint32_t segment;
  std::uint32_t first_wait;
  std::uint32_t first_transfer;
  std::uint32_t task;  // index in Program::tasks
};
static_assert(std::is_trivially_default_constructible_v<CompiledTask>);
static_assert(std::has_unique_object_representations_v<CompiledTask>);

// All that a task is but for what its waits and transfers, as many in both, are.
inline bool alike(const CompiledTask& a, const CompiledTask& b) {
  return std::memcmp(&a, &b, offsetof(CompiledTask, issue_offset)) == 0;
}

struct CompiledStream {
  std::uint32_t first = 0;  // into CompiledProgram::tasks
  std::uint32_t count = 0;
};

// A stretch of host time without syncs. Afterwards the host waits for `wait`, or, at the end of the
// step, until the compute stream has completed the step before.
struct Segment {
  Time length{0};
  program::Wait wait;
  bool step_end = false;
};

// What a program asks of what its roles resolve to.
struct Needs {
  std::vector<std::uint32_t> communicators;  // prices, by role; 0: unused
  std::vector<std::uint32_t> channels;
  std::vector<bool> sends;
  std::vector<bool> receives;
  std::uint32_t copies = 0;
};

struct CompiledProgram {
  const program::Program* source = nullptr;
  std::unique_ptr<CompiledTask[]> tasks;  // by stream, in issue order
  std::size_t size = 0;                   // of them
  std::vector<CompiledStream> streams;
  std::vector<Segment> segments;
  // Of Program::tasks, those that are no kernels, of which there are fewer; and the last row of
  // World::slowdowns that a kernel names.
  std::vector<std::uint32_t> communication;
  std::uint8_t last_slowdown = 0;
  Needs needs;
};

// Checks every index; throws std::invalid_argument naming the program and what is wrong.
CompiledProgram compile(const program::Program& p);
// Checks the tables of a world against its programs, which compiled.
void check(const program::World& world, const std::vector<CompiledProgram>& programs);

}  // namespace stepcast::engine
