// simulate --config NAME: forecast one training step.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>

#include "../command_line/command_line.h"
#include "../command_line/terminal.h"
#include "../options/job_options.h"
#include "../options/program.h"
#include "../options/run_options.h"
#include "../options/search_options.h"
#include "../output/outputs.h"
#include "../output/progress_line.h"
#include "../process/heap.h"
#include "../process/watch.h"
#include "commands.h"
#include "stepcast/base/suggestion.h"
#include "stepcast/config/config.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/forecast/link_use.h"
#include "stepcast/input/input.h"
#include "stepcast/interop/launch.h"
#include "stepcast/report/advice.h"
#include "stepcast/report/forecast_page.h"
#include "stepcast/report/report.h"
#include "stepcast/report/run_cost.h"
#include "stepcast/schedule/schedule.h"
#include "stepcast/search/advice.h"
#include "stepcast/text/document.h"

namespace stepcast::cli {
namespace {

struct MainOptions {
  JobOptions job;
  std::vector<std::string> from;  // a system, then its files
  std::string model, cluster, nodes;
  ProgramOptions program;
  std::vector<std::string> variables;
  bool strict = false;
  std::string json;
  std::string trace;
  std::string html;
  std::string svg;
  std::string fidelity = "folded";
  std::string samples;
  bool show_job = false;
  bool list = false;
  bool no_advice = false;
  bool watch = false;
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
  text += "model_type of a config.json:\n";
  for (const std::string& name : config::model_types()) {
    text += fmt::format("  {}\n", name);
  }
  text += "schedules:\n";
  for (const schedule::Entry& entry : schedule::table()) {
    text += fmt::format("  {:<18} {}\n", entry.name, entry.summary);
  }
  write_stdout("--list", text);
  return done;
}

// A job, and how it was read from a training system's files where --from names them.
struct Given {
  config::Loaded loaded;
  std::optional<interop::Launch> launch;
};

void refuse_without_from(const MainOptions& given) {
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
}

interop::Launch read_launch(const MainOptions& given) {
  interop::LaunchRequest request;
  request.system = given.from.front();
  request.inputs.assign(given.from.begin() + 1, given.from.end());
  request.model = given.model;
  request.cluster = given.cluster;
  request.nodes = integer_option("--nodes", given.nodes, 1, 0);
  request.variables = given.variables;
  request.overrides = given.job.overrides;
  interop::Launch launch = interop::read_launch(request);
  if (given.strict) {
    if (auto faults = interop::as_faults(launch); !faults.empty()) {
      throw InputError(std::move(faults));
    }
  }
  return launch;
}

// `quiet`: without the warnings about a training system's files.
Given load_job(const MainOptions& given, bool quiet = false) {
  if (given.from.empty()) {
    refuse_without_from(given);
    return {load(given.job), std::nullopt};
  }
  interop::Launch launch = read_launch(given);
  for (const std::string& line : interop::warnings(launch)) {
    write_stderr(quiet ? "" : line + "\n");
  }
  config::Loaded loaded = input::parse(launch.job, given.job.overrides);
  set_seed(loaded.job, given.job);
  return {std::move(loaded), std::move(launch)};
}

// The job with the origin of each value, and for values from launch files the name of the option.
std::string show(const Given& job) {
  if (!job.launch) {
    return config::show(job.loaded);
  }
  config::Loaded loaded = job.loaded;
  for (auto& [key, where] : loaded.origins) {
    for (const interop::LaunchOption& option : job.launch->translated) {
      if (where.line > 0 && to_string(option.origin) == to_string(where)) {
        where = {fmt::format("{} {}", to_string(where), option.name), 0, 0};
        break;
      }
    }
  }
  return config::show(loaded) + interop::describe(*job.launch);
}

// Adds changes that would make a job fit. The same files are read again with further overrides;
// changes that are then refused are left out.
void add_advice(forecast::Forecaster& forecaster, const MainOptions& given, const job::Job& job,
                result::Report& report) {
  const auto loader = [&](const std::vector<std::string>& more) -> std::optional<job::Job> {
    MainOptions changed = given;
    changed.job.seed.clear();  // advice is for the job as its files state it
    changed.job.overrides.insert(changed.job.overrides.end(), more.begin(), more.end());
    try {
      return load_job(changed, true).loaded.job;
    } catch (const InputError&) {
      return std::nullopt;
    }
  };
  ProgressLine line("advice", nullptr);
  const auto start = std::chrono::steady_clock::now();
  search::AdviceOptions options;
  options.progress = [&](int tried) {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    line.show(passed.count(), fmt::format("{:.1f} s: {} changes tried", passed.count(), tried));
  };
  search::add_advice(forecaster, job, loader, report, options);
  line.finish("");
}

// A word that names neither a command nor a job may be meant as either.
void require_known_word(const MainOptions& given, const Command& program) {
  namespace fs = std::filesystem;
  const fs::path word = given.job.words.empty() ? "" : given.job.words.front();
  std::vector<std::string> known = config::list("jobs");
  const auto is = [&](const fs::path& name) {
    return std::find(known.begin(), known.end(), name.string()) != known.end();
  };
  const std::string extension = word.extension().string();
  if (extension == ".yaml" || extension == ".yml" || extension == ".json") {
    return;  // a file, which is missed where it is read
  }
  if (word.empty() || word.string().find('=') != std::string::npos || word.has_parent_path() ||
      fs::exists(word) || is(word) || is(word.stem())) {
    return;
  }
  for (const Command& command : program.commands) {
    known.push_back(command.name);
  }
  throw option_fault(word.string(),
                     fmt::format("unknown command or job; expected a command that simulate --help "
                                 "lists, or a job that simulate --list prints{}",
                                 suggestion(word.string(), known)));
}

void require_one_source(const MainOptions& given) {
  if (given.job.config.empty() == given.from.empty()) {
    throw option_fault("--config",
                       given.job.config.empty()
                           ? "missing; expected a job file or the name of one in configs/ "
                             "(simulate --help shows examples, simulate --list the names)"
                           : "given with --from; expected one of them");
  }
}

// Of a job that is forecast again and again the terminal is the only place to print to.
void refuse_with_watch(const MainOptions& given) {
  for (const auto& [option, value] : {std::pair{"--json", &given.json},
                                      {"--html", &given.html},
                                      {"--svg", &given.svg},
                                      {"--trace", &given.trace}}) {
    if (!value->empty()) {
      throw option_fault("--watch", fmt::format("prints to the terminal; expected no {}", option));
    }
  }
  if (given.list || given.show_job) {
    throw option_fault(
        "--watch", fmt::format("forecasts; expected no {}", given.list ? "--list" : "--show-job"));
  }
}

Outputs outputs_of(const MainOptions& given) {
  Outputs outputs;
  outputs.add("--json", given.json);
  if (given.trace == "-") {
    throw option_fault("--trace", "a trace is binary; expected a file name");
  }
  outputs.add("--trace", given.trace);
  outputs.add("--html", given.html);
  outputs.add("--svg", given.svg);
  return outputs;
}

// `people`: what is printed where no form goes to standard output.
void write_outputs(Outputs& outputs, const Given& job, const result::Report& report,
                   const std::optional<result::RunCost>& whole, const Outputs::Text& people) {
  outputs.give("--json", [&] { return report::json(report, whole); });
  outputs.fill("--trace", [&](stepcast::OutputFile& file) {
    try {
      report::write_trace(report, file);
    } catch (const std::runtime_error& error) {
      throw option_fault("--trace", error.what());
    }
  });
  outputs.give("--html", [&] {
    report::ForecastDetails details;
    details.run = whole;
    const bool captured = job.loaded.job.model.layers == 0;  // no job was read
    details.job = captured ? "" : show(job);
    if (report.trace && !captured) {
      details.memory = forecast::memory_timeline(report, job.loaded.job);
      details.links = forecast::link_use(report, job.loaded.job);
    }
    return report::html(report, details);
  });
  outputs.give("--svg", [&] { return report::svg(report); });
  outputs.finish("simulate", people);
}

Outputs::Text text_of(const result::Report& report, const std::optional<result::RunCost>& whole) {
  return [&] { return report::terminal(report, whole, terminal_colour(), terminal_width()); };
}

// --program: a capture in place of a job.
int run_captured(const MainOptions& given) {
  if (!given.from.empty() || !given.job.config.empty() || !given.model.empty() || given.show_job) {
    throw option_fault("--program",
                       "a capture is forecast without a job; expected --cluster and --nodes");
  }
  forecast::Options options;
  options.threads = 0;
  options.fidelity = fidelity_of(given.fidelity);
  options.trace = !given.trace.empty() || !given.html.empty();
  Outputs outputs = outputs_of(given);
  const int nodes = integer_option("--nodes", given.nodes, 1, 0);
  const CapturedForecast forecast =
      forecast_program(given.program, given.cluster, nodes, given.job.overrides, options);
  const std::optional<result::RunCost> none;
  write_outputs(outputs, {forecast.on, std::nullopt}, forecast.report, none,
                text_of(forecast.report, none));
  return forecast.report.fits ? done : cannot_run;
}

int run_job(const MainOptions& given) {
  if (given.list) {
    return print_lists();
  }
  if (!given.program.file.empty()) {
    return run_captured(given);
  }
  refuse_without_program(given.program);
  require_one_source(given);
  forecast::Options options;
  options.threads = 0;
  options.fidelity = fidelity_of(given.fidelity);
  options.samples = integer_option("--samples", given.samples, 1, 0);
  options.trace = !given.trace.empty() || !given.html.empty();
  const Given job = load_job(given);
  if (given.show_job) {
    write_stdout("--show-job", show(job));
    return done;
  }
  const std::unique_ptr<RunInputs> inputs = run_inputs(given.run, job.loaded.job);
  Outputs outputs = outputs_of(given);

  share_heap();
  const auto start = std::chrono::steady_clock::now();
  forecast::Forecaster forecaster(text::data_directory());
  auto outcome = forecaster.forecast(job.loaded.job, options);
  result::Report report = std::move(forecast_of(outcome, job.loaded));
  report.job_json = config::to_json(job.loaded.job);
  const auto stop = std::chrono::steady_clock::now();
  std::optional<result::RunCost> whole;
  if (inputs) {
    whole = planner::run_cost(job.loaded.job, report, inputs->request);
  }
  Outputs::Text people = text_of(report, whole);
  if (!report.fits && options.fidelity != forecast::Fidelity::bound && !given.no_advice) {
    if (outputs.for_people()) {  // the forecast first, since advice takes longer
      write_stdout("simulate", people());
      people = [&report, notes = report.notes.size()] {
        return report::advice_text(report, notes, terminal_colour(), terminal_width());
      };
    }
    write_stderr(
        "it does not fit; looking for changes with which it does (--no-advice leaves them "
        "out)\n");
    add_advice(forecaster, given, job.loaded.job, report);
  }
  write_outputs(outputs, job, report, whole, people);
  write_stderr(fmt::format("forecast in {:.1f} ms ({} tasks, {} events)\n",
                           std::chrono::duration<double, std::milli>(stop - start).count(),
                           report.engine.tasks, report.engine.events));
  return report.fits ? done : cannot_run;
}

}  // namespace

Run add_job(Command& app) {
  auto given = std::make_shared<MainOptions>();
  app.settle.emplace_back([given, &app] { require_known_word(*given, app); });
  add_job_options(app, given->job);
  app.add_option("--from", given->from,
                 fmt::format("read the job from the files of a training system: one of {}; then "
                             "its files, and arguments NAME=VALUE that override them",
                             fmt::join(interop::launch_systems(), ", ")))
      .type_name("SYSTEM FILE ...")
      .at_least_one();
  app.add_option("--cluster", given->cluster,
                 "with --from or --program: the cluster, a name in configs/clusters or a path")
      .type_name("NAME");
  app.add_option("--nodes", given->nodes, "with --from or --program: its number of nodes")
      .type_name("N");
  app.add_option("--model", given->model,
                 "with --from: the model where the files do not state it, a name in configs/models "
                 "or a config.json")
      .type_name("NAME");
  add_program_options(app, given->program);
  app.add_option("--define", given->variables,
                 "with --from: the value of a shell variable that the script does not set")
      .type_name("NAME=VALUE")
      .one_value();
  app.add_flag("--strict", given->strict,
               "with --from: options that are unknown or not modelled are errors");
  add_margin_option(app, given->job);
  add_output(app, "--json", given->json, "write the report as JSON");
  add_output(app, "--html", given->html, "write the report as one page");
  add_output(app, "--svg", given->svg, "draw where the step goes, stage by stage");
  app.add_option("--trace", given->trace, "write the step as a Perfetto trace").type_name("FILE");
  app.add_option("--fidelity", given->fidelity,
                 "bound (closed-form lower bound) | folded (equal ranks are simulated once) | full "
                 "(every rank)")
      .type_name("NAME")
      .show_default();
  add_seed_option(app, given->job);
  app.add_option("--samples", given->samples,
                 "compute intervals from N Monte Carlo samples instead of sensitivities")
      .type_name("N");
  add_run_options(app, given->run);
  app.add_flag("--no-advice", given->no_advice,
               "of a job that does not fit: look for no changes with which it does");
  app.add_flag("--show-job", given->show_job,
               "print the resolved job with the origin of each value");
  app.add_flag("--list", given->list, "print the names that --config and the job's keys accept");
  app.add_flag("--watch", given->watch,
               "forecast again whenever the job's file, or a file that it uses, has changed");
  return [given] {
    if (!given->watch) {
      return run_job(*given);
    }
    refuse_with_watch(*given);
    return watch([&] { return run_job(*given); });
  };
}

}  // namespace stepcast::cli
