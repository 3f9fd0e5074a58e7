// Fields of a comparison of training systems, for JSON, the terminal and the page.
#pragma once

#include "../record/value.h"
#include "stepcast/result/compare.h"

namespace stepcast::report {

Record compared_fields(const result::ComparedSystem& system);

}  // namespace stepcast::report
