// A power cannot be added to a bandwidth.
#include "stepcast/base/quantity.h"

using namespace stepcast;

[[maybe_unused]] const auto wrong = Bandwidth(1) + Power(1);
