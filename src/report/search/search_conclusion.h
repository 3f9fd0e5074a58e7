// The first sentence of the report on a search: what a reader would tell a colleague.
#pragma once

#include <string>

#include "stepcast/result/search.h"

namespace stepcast::report {

std::string conclusion(const result::Search& search);

}  // namespace stepcast::report
