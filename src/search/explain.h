// Explains the result of a search: why the second-best strategy is slower, and what other hardware
// would bring.
#pragma once

#include "evaluation.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/search/search.h"

namespace stepcast::search {

// Names the limit that no strategy meets, and by how much. `least_memory` is the memory in bytes
// per GPU of the smallest strategy whose sizes divide.
std::string nothing_fits(const result::SearchCounts& counts,
                         const std::vector<std::pair<std::string, std::int64_t>>& refusals,
                         double least_memory, double capacity);

// Fills `why`. If the evaluation of the job as given is known (not nullptr), also fills `stated`
// and `against`.
void explain(result::Search& search, const Evaluation* stated);

// Fills what other networks would bring for `search.best`, until `stop` is set.
void ask_network(result::Search& search, const JobLoader& loader, forecast::Forecaster& forecaster,
                 Objective objective, const Stop& stop);

}  // namespace stepcast::search
