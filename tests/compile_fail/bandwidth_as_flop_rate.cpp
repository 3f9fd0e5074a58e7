// A bandwidth in bytes per second is not a rate of FLOPs.
#include "stepcast/base/quantity.h"

using namespace stepcast;

[[maybe_unused]] const auto wrong = Flops(1) / Bandwidth(1);
