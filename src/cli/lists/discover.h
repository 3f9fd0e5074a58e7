// simulate discover: a cluster file from what other tools know.
#pragma once

#include "../commands.h"

namespace stepcast::cli {

Run add_discover(Command& app);

}  // namespace stepcast::cli
