// The first sentence of the report on a search: what a reader would tell a colleague.
#pragma once

#include <string>

#include "stepcast/result/search.h"

namespace stepcast::report {

// Whether the job is refused with every combination of the space, so that none was a question of
// time or memory.
bool none_possible(const result::Search& search);

std::string conclusion(const result::Search& search);

}  // namespace stepcast::report
