// Rates of different things do not compare.
#include "stepcast/base/quantity.h"

using namespace stepcast;

[[maybe_unused]] const auto wrong = Bandwidth(1) == FlopRate(1);
