// Strategies that a job can say: all stages cut alike, each axis of their mesh for one purpose.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "../graph/graph_model.h"
#include "stepcast/search/search.h"

namespace stepcast::automatic {

struct Form {
  int stages = 1;
  View view;  // of every stage
  Roles roles{};
  job::Sharding sharding = job::Sharding::none;
  Redo redo = Redo::none;
  std::int64_t micro_batch = 1;  // samples that a data-parallel rank takes at once
  int micro_batches = 1;         // of the step
  int virtual_stages = 1;
  std::vector<std::string> overrides;  // of the base job
};

// Recomputation as the graph knows it; nullopt: it has no word for that.
std::optional<Redo> redo_of(const job::Recompute& recompute);

// Every combination of the space's degrees, virtual stages, micro-batches, sharding and
// recomputation that a mesh of two axes can have, and the job's system runs. A dimension that the
// space lacks stays as the job has it. `fixed`: overrides that all share.
std::vector<Form> forms_of(const search::Space& space, const job::Job& base,
                           const search::JobLoader& loader,
                           const std::vector<std::string>& fixed = {});

}  // namespace stepcast::automatic
