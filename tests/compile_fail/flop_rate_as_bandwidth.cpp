// A rate of FLOPs is not a bandwidth.
#include "stepcast/base/quantity.h"

using namespace stepcast;

[[maybe_unused]] const auto wrong = Bytes(1) / FlopRate(1);
