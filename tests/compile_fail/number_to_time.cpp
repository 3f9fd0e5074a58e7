// A raw number converts to a time explicitly only.
#include "stepcast/base/quantity.h"

using namespace stepcast;

[[maybe_unused]] const Time wrong = 1.5;
