// A size converts to a number only by count().
#include "stepcast/base/quantity.h"

using namespace stepcast;

[[maybe_unused]] const std::int64_t wrong = Bytes(80);
