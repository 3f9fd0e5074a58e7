// Explanations of a search: why the second best strategy is slower, and what other hardware would
// bring.
#pragma once

#include "evaluation.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/search/search.h"

namespace stepcast::search {

// The limit that no strategy meets, and by how much. `least_memory`: bytes of each GPU that the
// smallest strategy whose sizes divide takes.
std::string nothing_fits(const result::SearchCounts& counts,
                         const std::vector<std::pair<std::string, std::int64_t>>& refusals,
                         double least_memory, double capacity);

// Fills `why`; for the job as given (nullptr: not known) also `stated` and `against`.
void explain(result::Search& search, const Evaluation* stated);

// Fills what other networks would do for `search.best`, as far as `stop` allows.
void ask_network(result::Search& search, const JobLoader& loader, forecast::Forecaster& forecaster,
                 Objective objective, const Stop& stop);

}  // namespace stepcast::search
