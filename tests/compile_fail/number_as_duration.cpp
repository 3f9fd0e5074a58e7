// A task's duration needs a unit.
#include "stepcast/program/program.h"

using namespace stepcast::program;

void wrong(Task& task) { task.duration = 1000; }
