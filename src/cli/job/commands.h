// Commands about one job. `add_*` of every commands.h declares a command's options on `app` and
// returns the function that runs once they are parsed and gives the exit status.
#pragma once

#include "../command_line/arguments.h"

namespace stepcast::cli {

Run add_job(Command& app);  // no subcommand: the job that the words name
Run add_memory(Command& app);
Run add_explain(Command& app);
Run add_export(Command& app);
Run add_diff(Command& app);
Run add_serve(Command& app);

}  // namespace stepcast::cli
