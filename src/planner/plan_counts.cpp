// Node counts into which the sizes of a job's strategies divide.
#include <algorithm>
#include <cstdint>
#include <set>

#include "plan_strategies.h"

namespace stepcast::planner {
namespace {

std::vector<std::int64_t> values_of(const search::Space& space, const char* key, std::int64_t now) {
  const search::Dimension* d = space.find(key);
  if (d == nullptr) {
    return {now};
  }
  std::vector<std::int64_t> out;
  for (const std::string& text : d->values) {
    out.push_back(search::integer_of(*d, text));
  }
  return out;
}

}  // namespace

std::vector<int> node_counts(const search::Space& space, const job::Job& job, int gpus_per_node,
                             int most) {
  const job::Parallelism& p = job.parallelism;
  const std::int64_t ranks = std::int64_t{most} * gpus_per_node;
  std::set<std::int64_t> widths;  // ranks of one copy of the model
  for (const std::int64_t t : values_of(space, "parallelism.tensor", p.tensor)) {
    for (const std::int64_t s : values_of(space, "parallelism.pipeline", p.pipeline)) {
      for (const std::int64_t c : values_of(space, "parallelism.context", p.context)) {
        if (t * s * c <= ranks) {
          widths.insert(t * s * c);
        }
      }
    }
  }
  std::set<std::int64_t> copies;
  for (const std::int64_t m : values_of(space, "workload.micro_batch", job.workload.micro_batch)) {
    const std::int64_t whole = job.workload.global_batch / m;
    for (std::int64_t n = 1; m * whole == job.workload.global_batch && n * n <= whole; ++n) {
      if (whole % n == 0) {
        copies.insert(n);
        copies.insert(whole / n);
      }
    }
  }
  std::set<int> out;
  for (const std::int64_t width : widths) {
    for (const std::int64_t n : copies) {
      const std::int64_t all = width * n;
      if (all <= ranks && all % gpus_per_node == 0) {
        out.insert(static_cast<int>(all / gpus_per_node));
      }
    }
  }
  return {out.begin(), out.end()};
}

}  // namespace stepcast::planner
