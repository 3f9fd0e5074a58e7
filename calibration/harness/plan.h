// Which cases are measured, in which order. Cases come in strands (GEMMs of models in bf16, copies,
// ...), each with a share of the time; strands are interleaved so that whatever the budget, what
// has been measured is balanced.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/abilities.h"
#include "harness/device.h"

namespace stepcast::harness {

// In the order of GpuCase's alternatives.
inline constexpr std::array<std::string_view, 8> kKinds = {
    "gemm", "attention", "memory", "copy", "launch", "collective", "overlap", "layer"};
std::string_view kind_of(const interop::GpuCase& what);

struct PlanOptions {
  std::vector<std::string> only;    // kinds; empty: all
  std::vector<std::string> models;  // whose GEMMs; empty: all of configs/models
  std::uint64_t seed = 1;           // of the order within a strand
  Policy policy;
};

struct Planned {
  interop::GpuCase what;
  std::string key;     // interop::to_string(what)
  double seconds = 0;  // estimated
};

// Every case once, the most valuable of each strand first. Throws InputError for an unknown model.
std::vector<Planned> make_plan(const Abilities& on, const PlanOptions& options);

// ---- for the files that make strands

struct Strand {
  double share = 1;  // of the time
  std::vector<interop::GpuCase> cases;
};

// Fair queueing of the strands by their shares; what is too large or too long for the device is
// left out, and a case that stands twice is there once.
std::vector<Planned> interleave(const std::vector<Strand>& strands, const Abilities& on,
                                const Policy& policy);

// A deterministic order that is random in the seed.
void shuffle(std::vector<interop::GpuCase>& cases, std::uint64_t seed);

std::vector<Strand> gemm_strands(const Abilities& on, const PlanOptions& options);
std::vector<Strand> attention_strands(const Abilities& on, const PlanOptions& options);
std::vector<Strand> memory_strands(const Abilities& on, const PlanOptions& options);
std::vector<Strand> copy_strands();
std::vector<Strand> launch_strands();
// Overlap with collectives stands among them: cases of one communicator follow each other.
std::vector<Strand> collective_strands(const Abilities& on, bool collectives, bool overlaps);
std::vector<Strand> overlap_strands();
std::vector<Strand> layer_strands(const Abilities& on, const PlanOptions& options);

}  // namespace stepcast::harness
