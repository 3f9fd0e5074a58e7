// Commands that print what the program's own table of commands says.
#pragma once

#include "../command_line/arguments.h"

namespace stepcast::cli {

Run add_completion(Command& app, const Command& program);
Run add_man(Command& app, const Command& program);

}  // namespace stepcast::cli
