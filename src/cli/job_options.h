// --config, --set and --seed: the job that most subcommands are about.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "arguments.h"
#include "stepcast/config/config.h"

namespace stepcast::cli {

struct JobOptions {
  std::string config;
  std::vector<std::string> overrides;  // KEY=VALUE
  std::string seed;                    // "": the job's own
};

void add_job_options(Command& app, JobOptions& given);
void add_seed_option(Command& app, JobOptions& given);

// Throws InputError where no job is named.
void require_config(const JobOptions& given);
// The job, with the seed that was given. Throws InputError where none is named.
config::Loaded load(const JobOptions& given);
void set_seed(job::Job& job, const JobOptions& given);

// What was forecast of a job. Throws InputError at the line of the key that makes it infeasible.
template <class T>
T& forecast_of(std::variant<T, Infeasible>& outcome, const config::Loaded& loaded) {
  if (const auto* why = std::get_if<Infeasible>(&outcome)) {
    throw InputError(config::fault_of(loaded, *why));
  }
  return std::get<T>(outcome);
}

}  // namespace stepcast::cli
