// What a search may choose: keys of the job, and for each the values that it may take.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/job/job.h"
#include "stepcast/text/document.h"

namespace stepcast::search {

// One choice. `values`: as a user would type them behind "--set KEY=".
struct Dimension {
  std::string key;  // of the job: "parallelism.tensor"
  std::vector<std::string> values;
  Origin origin;
};

struct Space {
  std::vector<Dimension> dimensions;
  const Dimension* find(const std::string& key) const;
};

// A space file is a map from keys to lists of values. Keys of `parallelism`, `workload`, `memory` may be written without
// their section where that is unique ("tensor"); sizes may be rules instead of lists:
//   divisors, {divisors: N}: all that divide what the dimension splits (ranks for tensor, context and pipeline, layers for
//   virtual_pipeline, experts for expert, the global batch for micro_batch), to N;
//   powers, {powers: N}: those of them that are powers of two.
// Throws InputError, a fault for each wrong key.
Space read_space(const text::Value& document, const job::Job& job);

// One more dimension as typed, "parallelism.tensor=1,2,4" or "tensor=divisors": it takes the place of one of that key.
void vary(Space& space, const std::string& option, const std::string& text, const job::Job& job);

// Whether one key lies inside the other ("memory", "memory.recompute"), or both are one.
bool overlap(std::string_view a, std::string_view b);

// Drops dimensions whose key, or a key around or inside it, is among `overrides`: what the user sets is fixed.
void fix(Space& space, const std::vector<std::string>& overrides);

}  // namespace stepcast::search
