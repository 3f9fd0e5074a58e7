// simulate systems: the training systems that a job may name, and what each runs.
#include <fmt/format.h>

#include <memory>

#include "command_line.h"
#include "commands.h"
#include "output.h"
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
  if (given.json.empty()) {
    write_stdout("systems", text);
  } else if (given.json == "-") {
    write_stdout("--json -", json);
  } else {
    OutputFile file("--json", given.json);
    file.write(json);
    write_stdout("systems", text);
    file.commit();
  }
  return done;
}

}  // namespace

Run add_systems(Command& app) {
  auto given = std::make_shared<SystemsOptions>();
  app.add_option("NAME", given->name,
                 "one system: its defaults with their sources, what it refuses");
  app.add_option("--json", given->json, "write the table as JSON (- is standard output)")
      .type_name("FILE");
  app.footer =
      "Examples:\n"
      "  simulate systems\n"
      "  simulate systems deepspeed\n"
      "  simulate systems --json -";
  return [given] { return run_systems(*given); };
}

}  // namespace stepcast::cli
