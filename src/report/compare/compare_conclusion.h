// The first sentence of the report on a comparison of systems and of two jobs: what a reader would
// tell a colleague.
#pragma once

#include <string>

#include "stepcast/report/diff.h"
#include "stepcast/result/compare.h"

namespace stepcast::report {

std::string conclusion(const result::Comparison& comparison);
std::string conclusion(const Diff& diff);

}  // namespace stepcast::report
