// A time can be compared only with a time.
#include "stepcast/base/quantity.h"

using namespace stepcast;

[[maybe_unused]] const auto wrong = Time(1) < Bytes(1);
