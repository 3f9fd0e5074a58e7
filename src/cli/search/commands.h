// Commands about many jobs: strategies, sweeps, clusters to rent or buy, training systems.
#pragma once

#include "../command_line/arguments.h"

namespace stepcast::cli {

Run add_search(Command& app);
Run add_sweep(Command& app);
Run add_plan(Command& app);
Run add_goodput(Command& app);
Run add_compare(Command& app);

}  // namespace stepcast::cli
