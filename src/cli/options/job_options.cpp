#include "job_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "../command_line/command_line.h"
#include "stepcast/input/input.h"

namespace stepcast::cli {
namespace {

// Words without an option: the job, and KEY=VALUE as after --set.
void settle_words(JobOptions& given) {
  for (const std::string& word : given.words) {
    if (word.find('=') != std::string::npos) {
      given.overrides.push_back(word);
    } else if (given.config.empty()) {
      given.config = word;
    } else {
      throw option_fault(word, fmt::format("the job is '{}' already; expected KEY=VALUE, such as "
                                           "tp=4",
                                           given.config));
    }
  }
  given.words.clear();
  for (std::string& option : given.overrides) {
    option = config::whole_key(option);
  }
}

}  // namespace

void add_job_words(Command& app, JobOptions& given) {
  app.add_option("job", given.words,
                 "the job, as --config names it; then keys to override, as after --set: tp=4")
      .type_name("JOB KEY=VALUE ...");
  app.settle.emplace_back([&given] { settle_words(given); });
}

void add_job_options(Command& app, JobOptions& given, const char* what_set_does) {
  add_job_words(app, given);
  add_job_flags(app, given, what_set_does);
}

void add_job_flags(Command& app, JobOptions& given, const char* what_set_does) {
  app.add_option("--config", given.config, "job: a path, or a name in configs/").type_name("NAME");
  app.add_option("--set", given.overrides, what_set_does).type_name("KEY=VALUE").one_value();
}

void settle_files(Command& app, std::vector<std::string>& files, JobOptions& given) {
  app.settle.emplace_back([&files, &given] {
    const auto is_override = [](const std::string& word) {
      return word.find('=') != std::string::npos && !std::filesystem::exists(word);
    };
    const auto first = std::stable_partition(
        files.begin(), files.end(), [&](const std::string& word) { return !is_override(word); });
    std::transform(first, files.end(), std::back_inserter(given.overrides), config::whole_key);
    files.erase(first, files.end());
  });
}

void add_margin_option(Command& app, JobOptions& given) {
  app.add_option("--memory-margin", given.memory_margin,
                 "share of each device's memory that is to stay free, such as 5%: memory.margin")
      .type_name("P");
  app.settle.emplace_back([&given] {
    if (!given.memory_margin.empty()) {
      given.overrides.push_back("memory.margin=" + given.memory_margin);
    }
  });
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
