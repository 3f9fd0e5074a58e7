// Compiled as a file of lower: the rooms below are in sight.
#include "stepcast/cost/kernels.h"
#include "stepcast/strategy/plan.h"
