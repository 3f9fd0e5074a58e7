// --config and --set: the job that most subcommands are about.
#pragma once

#include <string>
#include <vector>

#include "arguments.h"
#include "stepcast/config/config.h"

namespace stepcast::cli {

struct JobOptions {
  std::string config;
  std::vector<std::string> overrides;  // KEY=VALUE
};

void add_job_options(Command& app, JobOptions& given);

// Throws InputError where no job is named.
void require_config(const JobOptions& given);
// The job as it stands. Throws InputError where none is named.
config::Loaded load(const JobOptions& given);

}  // namespace stepcast::cli
