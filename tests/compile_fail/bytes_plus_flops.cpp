// Bytes and FLOPs cannot be added.
#include "stepcast/base/quantity.h"

using namespace stepcast;

[[maybe_unused]] const auto wrong = Bytes(1) + Flops(1);
