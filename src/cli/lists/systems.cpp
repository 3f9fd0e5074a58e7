// simulate systems: the training systems that a job may name, and what each runs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <string>
#include <vector>

#include "../command_line/command_line.h"
#include "../command_line/terminal.h"
#include "../output/outputs.h"
#include "commands.h"
#include "stepcast/config/config.h"
#include "stepcast/planner/compare.h"
#include "stepcast/report/report.h"

namespace stepcast::cli {
namespace {

struct SystemsOptions {
  std::vector<std::string> words;
  std::string json;
};

// Those that have every word in their name or generation; letters' case does not matter.
std::vector<result::SystemSummary> systems_with(const std::vector<std::string>& words) {
  const auto lower = [](std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
  };
  std::vector<result::SystemSummary> out;
  for (const std::string& name : planner::systems(true)) {
    result::SystemSummary one = planner::summary(name);
    const std::string all = lower(fmt::format("{} {} {}", one.name, one.alias_of, one.generation));
    if (std::all_of(words.begin(), words.end(), [&](const std::string& word) {
          return all.find(lower(word)) != std::string::npos;
        })) {
      out.push_back(std::move(one));
    }
  }
  return out;
}

int run_systems(const SystemsOptions& given) {
  std::string text, json;
  const std::vector<std::string> names = planner::systems(true);
  const bool is_name = given.words.size() == 1 &&
                       std::find(names.begin(), names.end(), given.words.front()) != names.end();
  const std::vector<result::SystemSummary> some =
      is_name ? std::vector<result::SystemSummary>() : systems_with(given.words);
  if (some.empty() && given.words.size() > 1) {
    throw option_fault("systems", fmt::format("none has '{}'; expected words of simulate systems",
                                              fmt::join(given.words, " ")));
  }
  if (some.empty()) {  // a name, or a fault that says that there is none
    const auto details = planner::details(given.words.front());
    text = report::terminal(details, terminal_colour(), terminal_width());
    json = report::json(details);
  } else {
    text = report::terminal(some, terminal_colour(), std::max(terminal_width(), 160));
    json = report::json(some);
  }
  Outputs outputs;
  outputs.add("--json", given.json, json);
  outputs.finish("systems", [&] { return text; });
  return done;
}

}  // namespace

Run add_systems(Command& app) {
  auto given = std::make_shared<SystemsOptions>();
  app.add_option("NAME", given->words,
                 "one system: its defaults with their sources, and what it cannot run; or words: "
                 "only the systems that have all of them in a text")
      .type_name("...");
  add_output(app, "--json", given->json, "write the table as JSON");
  app.footer =
      "Examples:\n"
      "  simulate systems\n"
      "  simulate systems deepspeed\n"
      "  simulate systems fsdp\n"
      "  simulate systems --json -";
  return [given] { return run_systems(*given); };
}

}  // namespace stepcast::cli
