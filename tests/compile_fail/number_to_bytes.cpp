// A raw number converts to a size only explicitly.
#include "stepcast/base/quantity.h"

using namespace stepcast;

[[maybe_unused]] const Bytes wrong = std::int64_t{80};
