// Finds the job as it was given among the combinations of a space.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "enumerate.h"

namespace stepcast::search {

// Returns the combination that leaves the job unchanged, in the space's order. Returns nothing if
// there is none, or if the job is refused without the space's choices. Loads the job once, and once
// more for each value that is not a plain number or name.
std::optional<std::vector<std::string>> stated_combination(const Space& space,
                                                           const JobLoader& loader);

// Its position in the list of candidates, or that of the one that is the same job. Returns nothing
// if it is impossible or too large.
std::optional<std::size_t> place_of(Enumerated& all, const std::vector<std::string>& combination);

}  // namespace stepcast::search
