// The first sentence of the report on a long run: what a reader would tell a colleague.
#pragma once

#include <string>

#include "stepcast/result/goodput.h"

namespace stepcast::report {

std::string conclusion(const result::Goodput& goodput);

}  // namespace stepcast::report
