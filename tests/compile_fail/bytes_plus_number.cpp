// A raw number cannot be added to a size.
#include "stepcast/base/quantity.h"

using namespace stepcast;

[[maybe_unused]] const auto wrong = Bytes(1) + 1;
