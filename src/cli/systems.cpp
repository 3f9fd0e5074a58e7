// simulate systems: the training systems that a job may name, and what each runs.
#include <fmt/format.h>

#include <memory>

#include "command_line.h"
#include "commands.h"
#include "outputs.h"
#include "stepcast/config/config.h"
#include "stepcast/planner/compare.h"
#include "stepcast/report/report.h"

namespace stepcast::cli {
namespace {

struct SystemsOptions {
  std::string name;
  std::string json;
};

int run_systems(const SystemsOptions& given) {
  std::string text, json;
  if (given.name.empty()) {
    std::vector<result::SystemSummary> all;
    for (const std::string& name : planner::systems(true)) {
      all.push_back(planner::summary(name));
    }
    text = report::terminal(all, terminal_colour(), std::max(terminal_width(), 160));
    json = report::json(all);
  } else {
    const auto details = planner::details(given.name);
    text = report::terminal(details, terminal_colour(), terminal_width());
    json = report::json(details);
  }
  Outputs outputs;
  outputs.add("--json", given.json, json);
  outputs.finish("systems", [&] { return text; });
  return done;
}

}  // namespace

Run add_systems(Command& app) {
  auto given = std::make_shared<SystemsOptions>();
  app.add_option("NAME", given->name,
                 "show one system: its defaults with their sources, and what it cannot run");
  add_output(app, "--json", given->json, "write the table as JSON");
  app.footer =
      "Examples:\n"
      "  simulate systems\n"
      "  simulate systems deepspeed\n"
      "  simulate systems --json -";
  return [given] { return run_systems(*given); };
}

}  // namespace stepcast::cli
