// Fields of a comparison of training systems, for JSON, the terminal and the page.
#pragma once

#include "stepcast/result/compare.h"
#include "value.h"

namespace stepcast::report {

Record compared_fields(const result::ComparedSystem& system);

}  // namespace stepcast::report
