// What came out of the engine: types only.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "stepcast/program/program.h"

namespace stepcast::program {

// One executed task. Times are picoseconds from the start of the reported step (a task of the step before may lie below
// zero). `arrive`: it reached the head of its stream with all waits satisfied; `begin`: its transfer or computation began
// (after the last peer arrived); `end`.
struct Slice {
  std::int64_t arrive = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::uint32_t task = 0;  // into the program's tasks
  RankId rank = 0;
};

struct MemoryEvent {
  std::int64_t time = 0;  // host time
  std::int64_t safe = 0;  // release: when the last use on another stream has completed; else `time`
  std::uint32_t buffer = 0;
  bool allocate = false;
};

struct RankResult {
  std::array<std::int64_t, kCategories> breakdown{};  // picoseconds; adds up to the period
  std::int64_t peak_allocated = 0;                    // bytes, steady step
  std::int64_t first_step_peak = 0;
  std::int64_t steady = 0;  // bytes live at the step's boundary
  std::array<std::int64_t, kMemoryCategories> at_peak{};
  std::int64_t peak_at = 0;    // host time of the peak within the step
  std::int64_t host_peak = 0;  // bytes at Place::host, and at Place::nvme
  std::int64_t nvme_peak = 0;
};

struct Timeline {
  std::int64_t period = 0;  // picoseconds of one steady step
  std::int64_t first_step = 0;
  bool periodic = true;                          // false: `period` is the mean of the last steps
  std::int64_t spread = 0;                       // largest minus smallest of those
  int steps = 0;                                 // simulated
  std::uint64_t tasks = 0;                       // executed, all steps
  std::uint64_t events = 0;                      // taken from the queue
  std::vector<RankResult> ranks;                 // parallel to World::ranks
  std::vector<Slice> slices;                     // of the reported step, when recorded
  std::vector<std::vector<MemoryEvent>> memory;  // per rank, when recorded: one steady step
  std::vector<double> sensitivity;  // per curve: seconds of the period on the critical path that grow with it, when asked
  // The same path by what its tasks do, seconds; adds up to the period. What no task fills is the host's.
  std::array<double, kCategories> path{};
};

// A deadlock: a cycle (or chain) of waits, each "rank 3 stream tensor task 17 (all_gather) waits for …".
struct Deadlock {
  std::int64_t time = 0;
  std::vector<std::string> chain;
};

}  // namespace stepcast::program
