// What the value of a key changes where nobody stated it (calibration/open.yaml, scripts/open-facts): relative standard
// deviations of the parts of the step and of the memory that the key acts on.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "stepcast/base/spelling.h"

namespace stepcast::cost {

// The seconds of the critical path that a key acts on, as in structure.h; step: all of them.
enum class TimeReach { step, compute, communication, expert };
inline constexpr int kTimeReaches = 4;

constexpr auto spellings(TimeReach) {
  return std::to_array<Spelling<TimeReach>>({{TimeReach::step, "step"},
                                             {TimeReach::compute, "compute"},
                                             {TimeReach::communication, "communication"},
                                             {TimeReach::expert, "expert"}});
}

// The bytes that a key acts on. states: parameters, gradients and optimizer; allocated: all tensors.
enum class MemoryReach { allocated, states, activations };
inline constexpr int kMemoryReaches = 3;

constexpr auto spellings(MemoryReach) {
  return std::to_array<Spelling<MemoryReach>>(
      {{MemoryReach::allocated, "allocated"}, {MemoryReach::states, "states"}, {MemoryReach::activations, "activations"}});
}

struct OpenFact {
  std::string key;  // of the job; a section stands for all keys below it. "others": every key that no entry names
  std::array<double, kTimeReaches> time{};
  std::array<double, kMemoryReaches> memory{};
  std::string source;
};

// Throws InputError with the place of what is wrong. Without the file there are none.
std::vector<OpenFact> read_open_facts(const std::filesystem::path& calibration);

// The entry with the longest name that the key has or lies below, else the entry of "others"; null where there is neither.
const OpenFact* open_fact_of(const std::vector<OpenFact>& all, std::string_view key);

}  // namespace stepcast::cost
