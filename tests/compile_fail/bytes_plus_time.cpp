// Bytes and times cannot be added.
#include "stepcast/base/quantity.h"

using namespace stepcast;

[[maybe_unused]] const auto wrong = Bytes(1) + Time(1);
