// --config, --set and --seed: the job that most subcommands are about.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "../command_line/arguments.h"
#include "stepcast/config/config.h"

namespace stepcast::cli {

struct JobOptions {
  std::vector<std::string>
      words;  // without an option: the job, KEY=VALUE; settled into the next two
  std::string config;
  std::vector<std::string> overrides;  // KEY=VALUE
  std::string memory_margin;           // "5%"; "": the job's own
  std::string seed;                    // "": the job's own
};

// The job and keys to override as words alone: simulate llama70b tp=4. `given` lives as long as the
// command.
void add_job_words(Command& app, JobOptions& given);
// --config and --set: of a command whose words are something else.
void add_job_flags(Command& app, JobOptions& given, const char* what_set_does);
// Of a command whose words are files: words behind the first value of --set, "--set a=1 b=2", are
// keys to override too. A word that names a file is one.
void settle_files(Command& app, std::vector<std::string>& files, JobOptions& given);
// Words, --config and --set.
void add_job_options(Command& app, JobOptions& given,
                     const char* what_set_does =
                         "override a key of the job; may come several "
                         "times: parallelism.tensor=4, or tp=4");
// --memory-margin, which sets memory.margin.
void add_margin_option(Command& app, JobOptions& given);
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
