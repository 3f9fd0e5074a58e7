// A number that is worked out at run time is no id by itself.
#include "stepcast/program/program.h"

using namespace stepcast::program;

RankId wrong(unsigned number) { return number; }
