// What a search minimises.
#pragma once

#include "stepcast/search/search.h"

namespace stepcast::search {

// By how much the objective grows with a second of the step on this cluster.
double per_second(Objective objective, const job::Cluster& cluster);

}  // namespace stepcast::search
