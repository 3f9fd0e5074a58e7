// simulate --config NAME: forecast one training step.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <stdexcept>

#include "command_line.h"
#include "commands.h"
#include "output.h"
#include "run_options.h"
#include "search_options.h"
#include "stepcast/config/config.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/forecast/link_use.h"
#include "stepcast/input/input.h"
#include "stepcast/interop/launch.h"
#include "stepcast/report/forecast_page.h"
#include "stepcast/report/report.h"
#include "stepcast/report/run_cost.h"
#include "stepcast/schedule/schedule.h"
#include "stepcast/search/advice.h"
#include "stepcast/text/document.h"

namespace stepcast::cli {
namespace {

struct MainOptions {
  std::string config;
  std::vector<std::string> from;  // a system, then its files
  std::string model, cluster, nodes;
  std::vector<std::string> variables;
  bool strict = false;
  std::vector<std::string> overrides;
  std::string json;
  std::string trace;
  std::string html;
  std::string fidelity = "folded";
  std::string seed;
  std::string samples;
  bool show_job = false;
  bool list = false;
  RunOptions run;
};

int print_lists() {
  std::string text;
  for (const char* kind : {"jobs", "models", "clusters", "systems", "devices"}) {
    text += fmt::format("{}:\n", kind);
    for (const std::string& name : config::list(kind)) {
      text += fmt::format("  {}\n", name);
    }
  }
  text += "schedules:\n";
  for (const schedule::Entry& entry : schedule::table()) {
    text += fmt::format("  {:<18} {}\n", entry.name, entry.summary);
  }
  write_stdout("--list", text);
  return done;
}

// Files of a training system: the job, and what was found for --show-job. Quiet: without warnings
// of what the files hold.
std::pair<config::Loaded, std::optional<interop::Launch>> load_job(const MainOptions& given,
                                                                   bool quiet = false) {
  if (given.from.empty()) {
    for (const auto& [option, value] : {std::pair{"--model", &given.model},
                                        {"--cluster", &given.cluster},
                                        {"--nodes", &given.nodes}}) {
      if (!value->empty()) {
        throw option_fault(option, fmt::format("goes with --from; expected --set {}",
                                               option == std::string("--nodes")
                                                   ? "cluster.nodes=N"
                                                   : fmt::format("{}={}", option + 2, *value)));
      }
    }
    if (given.strict || !given.variables.empty()) {
      throw option_fault(given.strict ? "--strict" : "--define", "goes with --from; expected both");
    }
    return {input::load(given.config, given.overrides), std::nullopt};
  }
  interop::LaunchRequest request;
  request.system = given.from.front();
  request.inputs.assign(given.from.begin() + 1, given.from.end());
  request.model = given.model;
  request.cluster = given.cluster;
  request.nodes = given.nodes.empty() ? 0 : integer_option("--nodes", given.nodes, 1);
  request.variables = given.variables;
  request.overrides = given.overrides;
  interop::Launch launch = interop::read_launch(request);
  if (given.strict) {
    if (auto faults = interop::as_faults(launch); !faults.empty()) {
      throw InputError(std::move(faults));
    }
  }
  for (const std::string& line : interop::warnings(launch)) {
    write_stderr(quiet ? "" : line + "\n");
  }
  return {input::parse(launch.job, given.overrides), std::move(launch)};
}

// Beside each place of the job, the launch option that stands there.
std::string show(config::Loaded loaded, const std::optional<interop::Launch>& launch) {
  if (!launch) {
    return config::show(loaded);
  }
  for (auto& [key, where] : loaded.origins) {
    for (const interop::LaunchOption& option : launch->translated) {
      if (where.line > 0 && to_string(option.origin) == to_string(where)) {
        where = {fmt::format("{} {}", to_string(where), option.name), 0, 0};
        break;
      }
    }
  }
  return config::show(loaded) + interop::describe(*launch);
}

// What would make a job fit. The same files are read again with more overrides; what they refuse is
// no advice.
std::vector<result::Advice> advise(forecast::Forecaster& forecaster, const MainOptions& given,
                                   const job::Job& job, const result::Report& report) {
  const auto loader = [&](const std::vector<std::string>& more) -> std::optional<job::Job> {
    MainOptions changed = given;
    changed.overrides.insert(changed.overrides.end(), more.begin(), more.end());
    try {
      return load_job(changed, true).first.job;
    } catch (const InputError&) {
      return std::nullopt;
    }
  };
  return search::advise(forecaster, job, report, loader);
}

std::string html_page(const result::Report& report, const config::Loaded& loaded,
                      const std::optional<interop::Launch>& launch,
                      const std::optional<result::RunCost>& whole) {
  report::ForecastDetails details;
  details.run = whole;
  details.job = show(loaded, launch);
  if (report.trace) {
    details.memory = forecast::memory_timeline(report, loaded.job);
    details.links = forecast::link_use(report, loaded.job);
  }
  return report::html(report, details);
}

int run_job(const MainOptions& given) {
  if (given.list) {
    return print_lists();
  }
  if (given.config.empty() == given.from.empty()) {
    throw option_fault("--config",
                       given.config.empty()
                           ? "missing; expected a job file or the name of one in configs/ "
                             "(simulate --help shows examples, simulate --list the names)"
                           : "given with --from; expected one of them");
  }
  forecast::Options options;
  options.fidelity = fidelity_of(given.fidelity);
  options.samples = given.samples.empty() ? 0 : integer_option("--samples", given.samples, 1);
  options.trace = !given.trace.empty() || !given.html.empty();

  auto [loaded, launch] = load_job(given);
  if (!given.seed.empty()) {
    loaded.job.seed = static_cast<std::uint64_t>(integer_option("--seed", given.seed, 0));
  }
  if (given.show_job) {
    write_stdout("--show-job", show(loaded, launch));
    return done;
  }

  const std::unique_ptr<RunInputs> inputs = run_inputs(given.run, loaded.job);

  std::optional<OutputFile> json_file;
  if (!given.json.empty() && given.json != "-") {
    json_file.emplace("--json", given.json);
  }
  std::optional<OutputFile> trace_file;
  if (!given.trace.empty()) {
    if (given.trace == "-") {
      throw option_fault("--trace", "a trace is binary; expected a file name");
    }
    trace_file.emplace("--trace", given.trace);
  }
  if (given.html == "-" && given.json == "-") {
    throw option_fault("--html", "standard output is --json's; expected a file");
  }
  std::optional<OutputFile> html_file;
  if (!given.html.empty() && given.html != "-") {
    html_file.emplace("--html", given.html);
  }

  const auto start = std::chrono::steady_clock::now();
  forecast::Forecaster forecaster(text::data_directory());
  std::variant<result::Report, Infeasible> outcome;
  try {
    outcome = forecaster.forecast(loaded.job, options);
  } catch (const std::overflow_error& error) {
    throw InputError(Fault{
        Origin{given.config.empty() ? given.from.back() : given.config, 1, 1},
        fmt::format("{}; expected a job whose times fit 64 bits of picoseconds", error.what())});
  }
  if (const auto* why = std::get_if<Infeasible>(&outcome)) {
    throw InputError(config::fault_of(loaded, *why));
  }
  auto& report = std::get<result::Report>(outcome);
  report.job_json = config::to_json(loaded.job);
  const auto stop = std::chrono::steady_clock::now();
  if (!report.fits && options.fidelity != forecast::Fidelity::bound) {
    report.advice = advise(forecaster, given, loaded.job, report);
    if (report.advice.empty()) {
      report.notes.emplace_back(search::kNoAdvice);
    }
  }

  std::optional<result::RunCost> whole;
  if (inputs) {
    whole = planner::run_cost(loaded.job, report, inputs->request);
  }

  const std::string json = given.json.empty() ? "" : report::json(report, whole);
  if (json_file) {
    json_file->write(json);
  }
  if (trace_file) {
    try {
      report::write_trace(report, trace_file->path());
    } catch (const std::runtime_error& error) {
      throw option_fault("--trace", error.what());
    }
  }
  std::string page;
  if (!given.html.empty()) {
    page = html_page(report, loaded, launch, whole);
  }
  if (html_file) {
    html_file->write(page);
  }
  if (given.json == "-") {
    write_stdout("--json -", json);
  } else if (given.html == "-") {
    write_stdout("--html -", page);
  } else {
    write_stdout("simulate", report::terminal(report, whole, terminal_colour(), terminal_width()));
  }
  if (json_file) {
    json_file->commit();
  }
  if (trace_file) {
    trace_file->commit();
  }
  if (html_file) {
    html_file->commit();
  }
  write_stderr(fmt::format("forecast in {:.1f} ms ({} tasks, {} events)\n",
                           std::chrono::duration<double, std::milli>(stop - start).count(),
                           report.engine.tasks, report.engine.events));
  return report.fits ? done : cannot_run;
}

}  // namespace

Run add_job(Command& app) {
  auto given = std::make_shared<MainOptions>();
  app.add_option("--config", given->config, "job: a path, or a name in configs/").type_name("NAME");
  app.add_option(
         "--from", given->from,
         fmt::format(
             "read a training system's own files instead: one of {}; then files, and arguments "
             "NAME=VALUE above them",
             fmt::join(interop::launch_systems(), ", ")))
      .type_name("SYSTEM FILE ...")
      .at_least_one();
  app.add_option("--cluster", given->cluster,
                 "with --from: the machine, a name in configs/clusters or a path")
      .type_name("NAME");
  app.add_option("--nodes", given->nodes, "with --from: its number of nodes").type_name("N");
  app.add_option("--model", given->model,
                 "with --from: the model, a name in configs/models or a config.json, where the "
                 "files leave it open")
      .type_name("NAME");
  app.add_option("--define", given->variables,
                 "with --from: a shell variable that the script leaves open")
      .type_name("NAME=VALUE")
      .one_value();
  app.add_flag("--strict", given->strict,
               "with --from: options that are unknown or not modelled are errors");
  app.add_option("--set", given->overrides,
                 "override a key, as often as needed: parallelism.tensor=4")
      .type_name("KEY=VALUE")
      .one_value();
  app.add_option("--json", given->json, "write the report as JSON (- is standard output)")
      .type_name("FILE");
  app.add_option("--html", given->html, "write the report as one page (- is standard output)")
      .type_name("FILE");
  app.add_option("--trace", given->trace, "write the step as a Perfetto trace").type_name("FILE");
  app.add_option("--fidelity", given->fidelity, "bound | folded | full")
      .type_name("NAME")
      .show_default();
  app.add_option("--seed", given->seed, "seed of everything random").type_name("N");
  app.add_option("--samples", given->samples,
                 "intervals from N Monte Carlo samples instead of sensitivities")
      .type_name("N");
  add_run_options(app, given->run);
  app.add_flag("--show-job", given->show_job,
               "print the resolved job with where each value came from");
  app.add_flag("--list", given->list, "print the names that --config and the job's keys accept");
  return [given] { return run_job(*given); };
}

}  // namespace stepcast::cli
