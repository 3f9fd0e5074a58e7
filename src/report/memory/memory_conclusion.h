// The first sentence of the report on memory over the step: what a reader would tell a colleague.
#pragma once

#include <string>

#include "stepcast/result/memory.h"

namespace stepcast::report {

std::string conclusion(const result::MemoryTimeline& memory);

}  // namespace stepcast::report
