// A raw number converts to a time only explicitly.
#include "stepcast/base/quantity.h"

using namespace stepcast;

[[maybe_unused]] const Time wrong = 1.5;
