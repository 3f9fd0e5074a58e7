// The error of forecasts that remains although every curve is right, by parts of the step. It is fitted to published runs of
// a kind of training system (calibration/structure.yaml, scripts/fit-structure).
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "stepcast/base/spelling.h"

namespace stepcast::cost {

// compute: kernels, recomputation, optimizer. communication: exposed communication except for expert parallelism's.
// host: waiting for launches. run: the whole step, from one run of a job to the next.
enum class Part { compute, communication, expert, host, run };
inline constexpr int kParts = 5;

constexpr auto spellings(Part) {
  return std::to_array<Spelling<Part>>({{Part::compute, "compute"},
                                        {Part::communication, "communication"},
                                        {Part::expert, "expert"},
                                        {Part::host, "host"},
                                        {Part::run, "run"}});
}

struct Structure {
  std::vector<std::string> systems;        // names in configs/systems; "others": all that no other entry names
  std::array<double, kParts> deviation{};  // relative standard deviation of the seconds of each part
  std::int64_t runs = 0;                   // published runs that it was fitted to
  std::string source;                      // the files of those runs
};

// Parts of a process's memory. states: parameters, gradients and optimizer. temporary: buffers of communication,
// workspaces, other tensors. fragmentation: what the allocator reserves beyond live tensors. blocks: which free blocks later
// tensors find, of all live tensors, since one block of logits more or less is reserved however little is forecast beyond
// them. outside: the context, libraries and NCCL.
enum class MemoryPart { states, activations, temporary, fragmentation, blocks, outside };
inline constexpr int kMemoryParts = 6;

constexpr auto spellings(MemoryPart) {
  return std::to_array<Spelling<MemoryPart>>({{MemoryPart::states, "states"},
                                              {MemoryPart::activations, "activations"},
                                              {MemoryPart::temporary, "temporary"},
                                              {MemoryPart::fragmentation, "fragmentation"},
                                              {MemoryPart::blocks, "blocks"},
                                              {MemoryPart::outside, "outside"}});
}

// The error of memory although the job is known: relative standard deviation of the bytes of each part.
struct MemoryStructure {
  std::array<double, kMemoryParts> deviation{};
  std::int64_t readings = 0;  // published readings of memory that it was fitted to
  std::string source;         // the files of those readings
};

// `stated`: of jobs of which no key is assumed, under one of `systems`, for which readings of such jobs speak; what others
// leave unsaid does not widen theirs. `any`: of all other jobs.
struct MemoryStructures {
  MemoryStructure any;
  std::optional<MemoryStructure> stated;
  std::vector<std::string> systems;
};

// Throws InputError with the place of what is wrong. Without the file, or its key `memory`, there are no such deviations.
MemoryStructures read_memory_structures(const std::filesystem::path& calibration);

// `assumes`: any key of the job is assumed.
const MemoryStructure& memory_structure_of(const MemoryStructures& all, const std::string& system, bool assumes);

// Throws InputError with the place of what is wrong. Without the file there are no such deviations.
std::vector<Structure> read_structures(const std::filesystem::path& calibration);

// The entry that names the system, else the entry of "others"; null where there is neither.
const Structure* structure_of(const std::vector<Structure>& all, const std::string& system);

}  // namespace stepcast::cost
