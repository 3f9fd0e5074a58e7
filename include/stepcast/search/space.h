// What a search may choose: keys of the job, each with the values that it may take.
#pragma once

#include <cstdint>
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
  std::vector<Origin> places{};  // of the values, where they were written one by one
  bool followed = false;         // what other keys are by default follows it, so it makes families
};

struct Space {
  std::vector<Dimension> dimensions;
  const Dimension* find(const std::string& key) const;  // null: the space does not vary that key
};

// A space file is a map from keys to lists of values. Keys of `parallelism`, `workload` and `memory` may be written without
// their section where the name is unique ("tensor"). Sizes may be given by a rule instead of a list:
//   divisors, {divisors: N}: all divisors, up to N, of what the dimension splits (ranks for tensor, context and pipeline,
//   layers for virtual_pipeline, experts for expert, the global batch for micro_batch);
//   powers, {powers: N}: the powers of two among them.
// Throws InputError with a fault for each wrong key.
Space read_space(const text::Value& document, const job::Job& job);

// Adds a dimension as typed, "parallelism.tensor=1,2,4" or "tensor=divisors", in place of one of the same key.
void vary(Space& space, const std::string& option, const std::string& text, const job::Job& job);

// A job whose sizes are all 1, which divides every size of a valid job: a space is read for it where no job is known yet.
job::Job smallest_job();

// Throws InputError with a fault for each value that no job can have: not of the kind that its key takes, beyond its range,
// or the name of nothing. What only this job cannot have is a combination that is refused.
void check_values(const Space& space);

// Whether one key lies inside the other ("memory", "memory.recompute") or both are the same.
bool overlap(std::string_view a, std::string_view b);

// Removes the dimensions whose key overlaps a key of `overrides`: what the user sets is not searched.
void fix(Space& space, const std::vector<std::string>& overrides);

// A value of a dimension of whole numbers. Throws InputError where it is none.
std::int64_t integer_of(const Dimension& dimension, const std::string& value);

}  // namespace stepcast::search
