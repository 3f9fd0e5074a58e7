// Commands about what there is: presets, training systems, keys, this cluster.
#pragma once

#include "../command_line/arguments.h"

namespace stepcast::cli {

Run add_models(Command& app);
Run add_devices(Command& app);
Run add_clusters(Command& app);
Run add_jobs(Command& app);
Run add_schedules(Command& app);
Run add_systems(Command& app);
Run add_schema(Command& app);
Run add_discover(Command& app);

}  // namespace stepcast::cli
