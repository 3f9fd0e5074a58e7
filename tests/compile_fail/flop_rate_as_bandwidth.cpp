// Bytes do not move at FLOPs per second.
#include "stepcast/base/quantity.h"

using namespace stepcast;

[[maybe_unused]] const auto wrong = Bytes(1) / FlopRate(1);
