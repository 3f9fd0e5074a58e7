// simulate plan: which clusters of a catalogue train a job in time, within a budget and a power.
#include "stepcast/planner/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "../command_line/command_line.h"
#include "../command_line/terminal.h"
#include "../options/export_files.h"
#include "../options/job_options.h"
#include "../options/preset_file.h"
#include "../options/quantity_options.h"
#include "../output/outputs.h"
#include "commands.h"
#include "stepcast/base/calendar.h"
#include "stepcast/base/number.h"
#include "stepcast/base/suggestion.h"
#include "stepcast/report/plan.h"

namespace stepcast::cli {
namespace {

struct PlanOptions {
  JobOptions job;
  std::string tokens, deadline, budget, power, start;
  std::string catalogue = "default";
  std::string space = "plan";
  std::string objective = "cost";
  std::string operations = "default";
  std::string runs = "60";
  std::string threads;
  std::string json, csv, html, svg;
  std::vector<std::string> exports;  // FORMAT=FILE
  std::string export_of;
};

// A number above zero, or 0 where the option is not given.
double number_above_zero(const char* option, const std::string& text, const char* example) {
  if (text.empty()) {
    return 0;
  }
  try {
    if (const double value = parse_size(text); value > 0) {
      return value;
    }
  } catch (const std::invalid_argument& error) {
    throw option_fault(option, error.what());
  }
  throw option_fault(
      option,
      fmt::format("'{}' is not valid; expected a number above zero, such as {}", text, example));
}

planner::PlanObjective plan_objective(const std::string& name) {
  if (const auto objective = parse<planner::PlanObjective>(name)) {
    return *objective;
  }
  const auto words = words_of<planner::PlanObjective>();
  throw option_fault("--objective",
                     fmt::format("'{}'; expected cost, time, energy or carbon{}", name,
                                 suggestion(name, {words.begin(), words.end()})));
}

planner::PlanRequest plan_request(const PlanOptions& given) {
  const job::Job job = load(given.job).job;
  planner::PlanRequest request;
  request.config = given.job.config;
  request.overrides = given.job.overrides;
  request.tokens = number_above_zero("--tokens", given.tokens, "15T");
  if (!given.deadline.empty()) {
    request.limits.days = seconds_option("--deadline", given.deadline, "60d") / kDay;
  }
  request.limits.budget = number_above_zero("--budget", given.budget, "20M");
  if (!given.power.empty()) {
    request.limits.watts = watts_option("--power", given.power, "10MW");
  }
  request.objective = plan_objective(given.objective);
  request.start = given.start;
  if (!given.start.empty()) {
    try {
      planner::parse_date(given.start);
    } catch (const std::invalid_argument& error) {
      throw option_fault("--start", error.what());
    }
  }
  request.engine_runs = integer_option("--runs", given.runs, 1);
  request.threads = integer_option("--threads", given.threads, 1, 0);
  if (request.tokens == 0) {
    if (!job.workload.tokens) {
      throw option_fault(
          "--tokens",
          "missing; expected the number of tokens of the run, such as 15T (the job states "
          "no workload.tokens)");
    }
    request.tokens = *job.workload.tokens;
  }
  request.catalogue = planner::read_catalogue(preset_file("catalogue", given.catalogue));
  request.space = text::read_yaml(preset_file("spaces", given.space));
  return request;
}

// The offer whose job is written: the one that is named, else the first of the table that meets the
// limits.
const result::PlannedCluster* exported_cluster(const PlanOptions& given, const result::Plan& plan) {
  const auto found = std::find_if(
      plan.clusters.begin(), plan.clusters.end(), [&](const result::PlannedCluster& c) {
        return given.export_of.empty() ? c.meets : c.simulated && c.name == given.export_of;
      });
  if (found == plan.clusters.end() && !given.export_of.empty()) {
    std::vector<std::string> names;
    for (const result::PlannedCluster& c : plan.clusters) {
      names.push_back(c.name);
    }
    throw option_fault("--export-of",
                       fmt::format("'{}' is no cluster of the plan that runs the job{}",
                                   given.export_of, suggestion(given.export_of, names)));
  }
  return found == plan.clusters.end() ? nullptr : &*found;
}

int run_plan(const PlanOptions& given) {
  planner::PlanRequest request = plan_request(given);
  std::optional<planner::Operations> operations;
  if (given.operations != "none") {
    operations = planner::read_operations(preset_file("operations", given.operations));
    request.operations = &*operations;
  }
  Outputs outputs;
  outputs.add("--json", given.json);
  outputs.add("--csv", given.csv);
  outputs.add("--html", given.html);
  outputs.add("--svg", given.svg);
  const std::vector<ExportFile> exports = prepare_exports(given.exports);
  request.progress = [](const result::PlannedCluster& c, int done, int all) {
    const std::string what =
        c.meets ? fmt::format("meets the limits on {} {}", c.nodes, c.nodes == 1 ? "node" : "nodes")
        : c.simulated ? c.shortfalls.front().text
                      : "no strategy runs";
    write_stderr(fmt::format("{}/{} {}: {}, {} {}\n", done, all, c.name, what, c.engine_runs,
                             c.engine_runs == 1 ? "engine run" : "engine runs"));
  };
  const result::Plan plan = planner::plan(request, text::data_directory());
  outputs.give("--json", [&] { return report::json(plan); });
  outputs.give("--csv", [&] { return report::csv(plan); });
  outputs.give("--html", [&] { return report::html(plan); });
  outputs.give("--svg", [&] { return report::svg(plan); });
  outputs.finish("plan", [&] {
    constexpr int kWidth = 110;
    return report::terminal(plan, terminal_colour(), std::max(terminal_width(), kWidth));
  });
  if (!exports.empty()) {
    if (const result::PlannedCluster* c = exported_cluster(given, plan)) {
      write_exports(given.job, c->overrides, exports);
    }
  }
  const bool any = std::any_of(plan.clusters.begin(), plan.clusters.end(),
                               [](const auto& c) { return c.meets; });
  return any ? done : cannot_run;
}

}  // namespace

Run add_plan(Command& app) {
  auto given = std::make_shared<PlanOptions>();
  const auto option = [&](const char* name, std::string& into, const char* type,
                          const std::string& help) -> Option& {
    return app.add_option(name, into, help).type_name(type);
  };
  add_job_options(app, given->job);
  add_margin_option(app, given->job);
  option("--tokens", given->tokens, "N",
         "tokens of the whole run; left out: workload.tokens of the job");
  option("--deadline", given->deadline, "TIME", "longest wall-clock time: 60d");
  option("--budget", given->budget, "MONEY", "highest cost, in the catalogue's currency");
  option("--power", given->power, "POWER", "highest peak power at the meter: 10MW");
  option("--start", given->start, "DATE",
         "day from which the deadline counts, also for clusters that become available later: "
         "2025-06-01");
  option("--catalogue", given->catalogue, "FILE",
         "clusters, power and prices: a path, or a name in configs/catalogue")
      .show_default();
  option("--space", given->space, "FILE",
         "space of strategies: a path, or a name in configs/spaces")
      .show_default();
  option("--objective", given->objective, "NAME",
         "what is minimised: cost | time | energy | carbon")
      .show_default();
  option("--operations", given->operations, "FILE",
         "failures, checkpoints and repairs, as in simulate goodput; none: no failures")
      .show_default();
  option("--runs", given->runs, "N", "largest number of engine runs per cluster").show_default();
  option("--threads", given->threads, "N", "number of threads; the answer does not depend on it");
  add_output(app, "--json", given->json, "write the plan as JSON");
  add_output(app, "--csv", given->csv, "write a line for each cluster");
  add_output(app, "--html", given->html, "write the plan as one page");
  add_output(app, "--svg", given->svg, "draw days against cost");
  add_exports(app, given->exports, "the job on the first cluster that meets the limits");
  option("--export-of", given->export_of, "CLUSTER",
         "write that of this cluster of the plan instead");
  app.footer =
      "Examples:\n"
      "  simulate plan --config llama405b --tokens 15e12 --deadline 60d\n"
      "  simulate plan --config llama70b --tokens 2e12 --deadline 30d --budget 5e6 --power 4MW\n"
      "Exit status: 0 a cluster meets the limits; 1 none does (each row states by how much); 2 bad "
      "input.";
  return [given] { return run_plan(*given); };
}

}  // namespace stepcast::cli
