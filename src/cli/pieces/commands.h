// Commands about a part of a step: a collective, kernels, a pipeline schedule.
#pragma once

#include "../command_line/arguments.h"

namespace stepcast::cli {

Run add_collective(Command& app);
Run add_kernels(Command& app);
Run add_schedule(Command& app);

}  // namespace stepcast::cli
