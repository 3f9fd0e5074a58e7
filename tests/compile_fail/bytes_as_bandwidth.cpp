// A size is not a bandwidth.
#include "stepcast/base/quantity.h"

using namespace stepcast;

[[maybe_unused]] const Bandwidth wrong = Bytes(80);
