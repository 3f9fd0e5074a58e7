// Compiled as a file of lower: the rooms above are not.
#include "stepcast/forecast/forecaster.h"
