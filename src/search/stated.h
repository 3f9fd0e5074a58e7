// The job as it was given, among a space's combinations.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "enumerate.h"

namespace stepcast::search {

// The combination that leaves the job as it is, in the space's order. Nothing where none does, or
// the job is refused without the space's choices. Costs one load, and one more for each value that
// is no plain number or name.
std::optional<std::vector<std::string>> stated_combination(const Space& space,
                                                           const JobLoader& loader);

// Its place in the list of candidates. Nothing where it is impossible or too large.
std::optional<std::size_t> place_of(const Enumerated& all,
                                    const std::vector<std::string>& combination);

}  // namespace stepcast::search
