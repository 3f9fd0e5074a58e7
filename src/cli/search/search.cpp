// simulate search: the best strategy of a space.
#include "stepcast/search/search.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include "../command_line/command_line.h"
#include "../command_line/terminal.h"
#include "../options/export_files.h"
#include "../options/job_options.h"
#include "../options/preset_file.h"
#include "../options/quantity_options.h"
#include "../options/search_options.h"
#include "../output/outputs.h"
#include "../process/heap.h"
#include "commands.h"
#include "search_algorithms.h"
#include "search_progress.h"
#include "stepcast/config/config.h"
#include "stepcast/input/input.h"
#include "stepcast/report/pages.h"
#include "stepcast/report/report.h"
#include "stepcast/search/jobs.h"
#include "stepcast/search/world.h"
#include "stepcast/store/payload.h"
#include "stepcast/store/store.h"
#include "stepcast/text/document.h"

namespace stepcast::cli {
namespace {

struct SearchOptions {
  JobOptions job;
  std::string space = "default";
  std::vector<std::string> vary;
  std::string objective = "time";
  std::string time_limit;
  std::string threads;
  std::string store;
  bool bound_only = false;
  bool exhaustive = false;
  std::string json, html, svg;
  std::vector<std::string> exports;  // FORMAT=FILE
  AlgorithmOptions algorithms;
};

// Searches by lower bounds alone; the speed goes to standard error.
result::Search by_bounds(const search::Request& request, const search::JobLoader& loader,
                         bool exhaustive) {
  const auto start = std::chrono::steady_clock::now();
  result::Search answer =
      search::search_bounds(request, loader, text::data_directory(), exhaustive);
  const double taken =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto all = static_cast<double>(answer.counts.candidates);
  const auto possible = all - static_cast<double>(answer.counts.impossible);
  write_stderr(fmt::format(
      "{:.2f} s: {:.3g} combinations a second, {:.3g} bounds a second; {:.2f} % of the possible "
      "ones were pruned without a bound\n",
      taken, all / taken, static_cast<double>(answer.counts.bounded) / taken,
      possible > 0 ? 100 * static_cast<double>(answer.counts.time_pruned) / possible : 0));
  return answer;
}

// The space of strategies for a job: the preset's, by --vary, without what --set states.
search::Space space_of(const SearchOptions& given, const text::Value& document,
                       const job::Job& job) {
  search::Space out = search::read_space(document, job);
  for (const std::string& text : given.vary) {
    search::vary(out, "--vary", text, job);
  }
  search::check_values(out);
  search::fix(out, given.job.overrides);
  return out;
}

// --algorithm: several searches of one space.
int compare_searches(const SearchOptions& given, const search::Request& request,
                     const job::Job& job, const search::JobLoader& loader, const std::string& title,
                     Outputs& outputs, const std::vector<ExportFile>& exports) {
  if (given.bound_only) {
    throw option_fault("--bound-only", "simulates nothing; leave out --algorithm");
  }
  if (!given.svg.empty()) {
    throw option_fault("--svg", "draws one search; expected no --algorithm, or --html");
  }
  AlgorithmOptions options = given.algorithms;
  options.fixed = given.job.overrides;
  const auto best = compare_algorithms(options, request, job, loader, title, outputs);
  if (best && !exports.empty()) {
    write_exports(given.job, *best, exports);
  }
  return best ? done : cannot_run;
}

int print_search(const SearchOptions& given, const result::Search& answer, Outputs& outputs,
                 const std::vector<ExportFile>& exports) {
  outputs.give("--json", [&] { return report::json(answer); });
  outputs.give("--html", [&] { return report::html(answer); });
  outputs.give("--svg", [&] { return report::svg(answer); });
  outputs.finish("search", [&] {
    constexpr int kWidth = 100;
    const bool piped = search::launched();
    return report::terminal(answer, !piped && terminal_colour(), piped ? kWidth : terminal_width());
  });
  if (answer.found && !exports.empty()) {
    write_exports(given.job, answer.best.overrides, exports);
  }
  return answer.found ? done : cannot_run;
}

int search_and_print(const SearchOptions& given, search::World& world, int threads,
                     const search::JobLoader& loader) {
  if (given.exhaustive && !given.bound_only) {
    throw option_fault("--exhaustive", "evaluates every bound; expected --bound-only too");
  }
  require_config(given.job);
  const text::Value document = text::read_yaml(preset_file("spaces", given.space));
  const config::Loaded base =
      search::base_of(given.job.config, given.job.overrides,
                      [&](const job::Job& job) { return space_of(given, document, job); });
  search::Request request;
  request.objective = objective_of(given.objective);
  request.space = space_of(given, document, base.job);
  request.time_limit =
      given.time_limit.empty() ? 0 : time_limit_option("--time-limit", given.time_limit);
  request.threads = threads;
  request.world = &world;
  request.reasons = search::reasons_of(given.job.config, given.job.overrides);
  Outputs outputs;
  outputs.add("--json", given.json);
  outputs.add("--html", given.html);
  outputs.add("--svg", given.svg);
  const std::vector<ExportFile> exports = prepare_exports(given.exports);
  std::optional<store::Store> store;
  if (!given.store.empty()) {
    store.emplace("--store", given.store, store::model_version(text::data_directory()));
    request.store = &*store;
    request.store_key = store::job_key(base);
  }
  if (world.without_mpi()) {
    write_stderr("simulate: this build has no MPI: the first process searches alone\n");
  }
  say_when_ended("search", given.store, world.size());
  SearchProgress progress(request.store);
  request.progress = [&](const search::Progress& p) { progress.show(p); };
  const std::string title = fmt::format("{} on {} x {}", base.job.model.name,
                                        base.job.cluster.nodes, base.job.cluster.name);
  if (!given.algorithms.names.empty()) {
    return compare_searches(given, request, base.job, loader, title, outputs, exports);
  }
  result::Search answer = given.bound_only
                              ? by_bounds(request, loader, given.exhaustive)
                              : search::search(request, loader, text::data_directory());
  answer.title = title;
  return print_search(given, answer, outputs, exports);
}

int run_search(const SearchOptions& given) {
  const int threads = integer_option("--threads", given.threads, 1, 0);
  share_heap_of_one(threads);
  const auto loader = search::jobs_of(given.job.config, given.job.overrides);
  auto world = std::make_unique<search::World>();
  if (world->rank() == 0) {
    return search_and_print(given, *world, threads, loader);
  }
  search::follow(*world, threads, loader, text::data_directory());
  world.reset();
  std::_Exit(done);  // without waiting for evaluations that are no longer needed
}

}  // namespace

Run add_search(Command& app) {
  auto given = std::make_shared<SearchOptions>();
  add_job_options(app, given->job, "override a key of the job, which is then not searched");
  add_margin_option(app, given->job);
  app.add_option("--space", given->space,
                 "space of strategies: a path, or a name in configs/spaces")
      .type_name("FILE")
      .show_default();
  app.add_option(
         "--vary", given->vary,
         "values of one dimension, in place of the space's: tensor=1,2,4 or pipeline=divisors")
      .type_name("KEY=VALUES")
      .one_value();
  app.add_option(
         "--objective", given->objective,
         "what is minimised: time | cost (GPU-seconds) | energy (at rated power of all GPUs)")
      .type_name("NAME")
      .show_default();
  app.add_option(
         "--time-limit", given->time_limit,
         "stop after this time, such as 90s or 1h (a bare number is seconds), and report the "
         "remaining gap")
      .type_name("TIME");
  app.add_option("--threads", given->threads,
                 "number of threads of each process, at most four for each core or sixteen; the "
                 "answer does "
                 "not depend on it")
      .type_name("N");
  app.add_option("--store", given->store,
                 "keep evaluations in this file, from which the same search continues")
      .type_name("FILE");
  add_exports(app, given->exports, "the strategy found (with several algorithms: the best)");
  app.add_flag(
      "--bound-only", given->bound_only,
      "simulate nothing; report the least lower bound of the space and the layouts that have it");
  app.add_flag("--exhaustive", given->exhaustive,
               "with --bound-only: evaluate every combination instead of pruning");
  add_output(app, "--json", given->json, "write the answer as JSON");
  add_output(app, "--html", given->html, "write the answer as one self-contained page");
  add_output(app, "--svg", given->svg, "draw time against memory");
  app.add_option(
         "--algorithm", given->algorithms.names,
         "compare search algorithms, whose answers the engine forecasts: all, or some of exact, "
         "ahp, alpa, nnscaler, flexflow, evolutionary, annealing, separated by commas")
      .separated_by(',')
      .type_name("NAMES");
  app.add_option("--degrees", given->algorithms.degrees,
                 "how ahp searches degrees: auto | exact | evolutionary | annealing")
      .type_name("NAME");
  app.add_option("--schedule-file", given->algorithms.schedule_file,
                 "file for ahp's own order of passes, if its answer has one (.csv)")
      .type_name("FILE");
  app.add_option(
         "--constraints", given->algorithms.constraints,
         "constraints on plans of alpa, nnscaler and flexflow (op_trans, op_assign, op_order)")
      .type_name("FILE");
  app.add_option("--seed", given->algorithms.seed, "seed of randomised algorithms (by default 1)")
      .type_name("N");
  app.footer =
      "Examples:\n"
      "  simulate search --config gpt3-175b\n"
      "  simulate search --config llama70b --vary tensor=4,8 --vary memory.recompute=none,full\n"
      "  mpirun -n 64 simulate search --config llama405b --space llama405b --store search.db\n"
      "Exit status: 0 found; 1 no strategy of the space fits; 2 bad input.";
  return [given] { return run_search(*given); };
}

}  // namespace stepcast::cli
