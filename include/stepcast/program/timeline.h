// What came out of the engine: types only.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "stepcast/program/program.h"

namespace stepcast::program {

// One executed task. Times count from the start of the reported step (a task of the step before may lie below
// zero). `arrive`: it reached the head of its stream with all waits satisfied; `begin`: its transfer or computation began
// (after the last peer arrived); `end`.
struct Slice {
  Time arrive{0};
  Time begin{0};
  Time end{0};
  TaskIndex task;
  RankId rank;
};

struct MemoryEvent {
  Time time{0};  // host time
  Time safe{0};  // release: when the last use on another stream has completed; else `time`
  BufferIndex buffer;
  bool allocate = false;
};

struct RankResult {
  std::array<Time, kCategories> breakdown{};  // adds up to the period
  Bytes peak_allocated;                       // of a steady step
  Bytes first_step_peak;
  Bytes steady;  // live at the step's boundary
  std::array<Bytes, kMemoryCategories> at_peak{};
  Time peak_at{0};  // host time of the peak within the step
  Bytes host_peak;  // at Place::host
  Bytes nvme_peak;  // at Place::nvme
};

struct Timeline {
  Time period{0};  // of one steady step
  Time first_step{0};
  bool periodic = true;                          // false: `period` is the mean of the last steps
  Time spread{0};                                // largest minus smallest of those
  int steps = 0;                                 // simulated
  std::uint64_t tasks = 0;                       // executed, all steps
  std::uint64_t events = 0;                      // taken from the queue
  std::uint64_t skipped = 0;                     // of the tasks: known from a period within their step, or the step before
  std::vector<RankResult> ranks;                 // parallel to World::ranks
  std::vector<Slice> slices;                     // of the reported step, when recorded
  std::vector<std::vector<MemoryEvent>> memory;  // per rank, when recorded: one steady step
  std::vector<double> sensitivity;  // per curve: seconds of the period on the critical path that grow with it, when asked
  // The same path by what its tasks do, seconds; adds up to the period. What no task fills is the host's.
  std::array<double, kCategories> path{};
};

// A deadlock: a cycle (or chain) of waits, each "rank 3 stream tensor task 17 (all_gather) waits for …".
struct Deadlock {
  Time time{0};
  std::vector<std::string> chain;
};

}  // namespace stepcast::program
