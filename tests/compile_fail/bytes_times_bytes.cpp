// Two sizes cannot be multiplied: there are no square bytes.
#include "stepcast/base/quantity.h"

using namespace stepcast;

[[maybe_unused]] const auto wrong = Bytes(2) * Bytes(2);
