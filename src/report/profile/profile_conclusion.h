// The first sentence of the report on a profile and of an explanation: what a reader would tell a
// colleague.
#pragma once

#include <string>

#include "stepcast/result/explanation.h"
#include "stepcast/result/trace.h"

namespace stepcast::report {

std::string conclusion(const result::TraceProfile& profile);
std::string conclusion(const result::Explanation& explanation);

}  // namespace stepcast::report
