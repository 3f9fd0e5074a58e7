// Strategies that a job can express: all stages split alike, with one purpose for each mesh axis.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "../graph/graph_model.h"
#include "stepcast/search/search.h"

namespace stepcast::automatic {

struct Form {
  int stages = 1;
  View view;  // the same for every stage
  Roles roles{};
  job::Sharding sharding = job::Sharding::none;
  Redo redo = Redo::none;
  std::int64_t micro_batch = 1;  // samples per micro-batch of a data-parallel rank
  int micro_batches = 1;         // in the step
  int virtual_stages = 1;
  std::vector<std::string> overrides;  // relative to the base job
};

// The recomputation in terms of the graph; nullopt: the graph has no equivalent.
std::optional<Redo> redo_of(const job::Recompute& recompute);

// Lists every combination of the space's degrees, virtual stages, micro-batches, sharding and
// recomputation that fits a mesh of two axes and that the job's system supports. A dimension that
// the space lacks keeps the job's value. All forms share the overrides `fixed`.
std::vector<Form> forms_of(const search::Space& space, const job::Job& base,
                           const search::JobLoader& loader,
                           const std::vector<std::string>& fixed = {});

}  // namespace stepcast::automatic
