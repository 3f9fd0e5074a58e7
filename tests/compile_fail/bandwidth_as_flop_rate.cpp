// FLOPs are not done at bytes per second.
#include "stepcast/base/quantity.h"

using namespace stepcast;

[[maybe_unused]] const auto wrong = Flops(1) / Bandwidth(1);
