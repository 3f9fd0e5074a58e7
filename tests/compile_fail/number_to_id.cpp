// A number computed at run time does not convert to an id implicitly.
#include "stepcast/program/program.h"

using namespace stepcast::program;

RankId wrong(unsigned number) { return number; }
