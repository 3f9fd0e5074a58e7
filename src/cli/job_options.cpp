#include "job_options.h"

#include "command_line.h"
#include "stepcast/input/input.h"

namespace stepcast::cli {

void add_job_options(Command& app, JobOptions& given) {
  app.add_option("--config", given.config, "job: a path, or a name in configs/").type_name("NAME");
  app.add_option("--set", given.overrides, "override a key of the job; may come several times")
      .type_name("KEY=VALUE")
      .one_value();
}

void add_seed_option(Command& app, JobOptions& given) {
  app.add_option("--seed", given.seed, "seed of all random draws").type_name("N");
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
  config::Loaded loaded = input::load(given.config, given.overrides);
  set_seed(loaded.job, given);
  return loaded;
}

void set_seed(job::Job& job, const JobOptions& given) {
  if (!given.seed.empty()) {
    job.seed = static_cast<std::uint64_t>(integer_option("--seed", given.seed, 0));
  }
}

}  // namespace stepcast::cli
