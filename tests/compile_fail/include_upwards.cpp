// Compiled as a file of src/lower, which must not include headers of the folders above it.
#include "stepcast/forecast/forecaster.h"
