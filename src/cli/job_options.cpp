#include "job_options.h"

#include "command_line.h"
#include "stepcast/input/input.h"

namespace stepcast::cli {

void add_job_options(Command& app, JobOptions& given) {
  app.add_option("--config", given.config, "job: a path, or a name in configs/").type_name("NAME");
  app.add_option("--set", given.overrides, "override a key, as often as needed")
      .type_name("KEY=VALUE")
      .one_value();
}

void require_config(const JobOptions& given) {
  if (given.config.empty()) {
    throw option_fault("--config",
                       "missing; expected a job file or the name of one in configs/ "
                       "(simulate --list shows the names)");
  }
}

config::Loaded load(const JobOptions& given) {
  require_config(given);
  return input::load(given.config, given.overrides);
}

}  // namespace stepcast::cli
