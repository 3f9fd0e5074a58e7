// Rates of different quantities cannot be compared.
#include "stepcast/base/quantity.h"

using namespace stepcast;

[[maybe_unused]] const auto wrong = Bandwidth(1) == FlopRate(1);
