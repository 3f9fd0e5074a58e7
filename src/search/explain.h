// What a reader of a search asks next: why the second best is slower, and what other hardware would
// bring.
#pragma once

#include "evaluation.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/search/search.h"

namespace stepcast::search {

// What no strategy keeps to, and by how much. `least_memory`: bytes of each GPU, of the smallest
// that divides.
std::string nothing_fits(const result::SearchCounts& counts,
                         const std::vector<std::pair<std::string, std::int64_t>>& refusals,
                         double least_memory, double capacity);

// Fills `why`, and of the job as given (nullptr: not known) `stated` and `against`.
void explain(result::Search& search, const Evaluation* stated);

// Fills the what-ifs of the network, of `search.best`, as far as `stop` allows.
void ask_network(result::Search& search, const JobLoader& loader, forecast::Forecaster& forecaster,
                 Objective objective, const Stop& stop);

}  // namespace stepcast::search
