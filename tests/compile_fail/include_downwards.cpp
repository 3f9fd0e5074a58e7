// Compiled as a file of src/lower, which may include headers of the folders below it.
#include "stepcast/cost/kernels.h"
#include "stepcast/strategy/plan.h"
