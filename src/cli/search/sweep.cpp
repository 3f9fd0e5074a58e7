// simulate sweep: one job over all combinations of values.
#include "stepcast/planner/sweep.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>

#include "../command_line/command_line.h"
#include "../command_line/terminal.h"
#include "../options/job_options.h"
#include "../options/preset_file.h"
#include "../options/search_options.h"
#include "../output/outputs.h"
#include "../output/progress_line.h"
#include "../process/heap.h"
#include "commands.h"
#include "stepcast/report/sweep.h"
#include "stepcast/report/sweep_page.h"
#include "stepcast/search/space.h"
#include "stepcast/search/world.h"
#include "stepcast/store/store.h"
#include "stepcast/text/document.h"

namespace stepcast::cli {
namespace {

struct SweepOptions {
  JobOptions job;
  std::vector<std::string> vary;
  std::string fidelity = "folded";
  bool optimize = false;
  std::string space;
  std::string objective;
  std::string threads;
  std::string store;
  std::string json, csv, svg, html, plot;
  bool columns = false;
};

planner::SweepRequest sweep_request(const SweepOptions& given) {
  require_config(given.job);
  if (given.vary.empty()) {
    throw option_fault("--vary", "missing; expected one such as cluster.nodes=8..64*2");
  }
  planner::SweepRequest request;
  request.config = given.job.config;
  request.overrides = given.job.overrides;
  request.axes = planner::sweep_axes("--vary", given.vary);
  planner::check_values("--vary", given.vary, request.axes);
  request.fidelity = fidelity_of(given.fidelity);
  if (given.optimize) {
    const std::string space = given.space.empty() ? "default" : given.space;
    request.optimize = {text::read_yaml(preset_file("spaces", space)),
                        objective_of(given.objective.empty() ? "time" : given.objective)};
    search::check_values(search::read_space(request.optimize->space, search::smallest_job()));
  } else if (!given.space.empty() || !given.objective.empty()) {
    throw option_fault(given.space.empty() ? "--objective" : "--space",
                       "applies only to searches; expected --optimize too");
  }
  request.threads = integer_option("--threads", given.threads, 1, 0);
  share_heap_of_one(request.threads);
  return request;
}

std::optional<report::SweepPlot> plot_named(const std::string& name) {
  using report::SweepPlot;
  constexpr std::pair<const char*, SweepPlot> kPlots[] = {{"scaling", SweepPlot::scaling},
                                                          {"heatmap", SweepPlot::heatmap},
                                                          {"pareto", SweepPlot::pareto}};
  if (name.empty()) {
    return std::nullopt;
  }
  for (const auto& [known, plot] : kPlots) {
    if (name == known) {
      return plot;
    }
  }
  throw option_fault("--plot",
                     fmt::format("unknown plot '{}'; expected scaling, heatmap or pareto", name));
}

// Refuses a plot that these axes do not allow before anything is computed.
void check_plot(const SweepOptions& given, const std::optional<report::SweepPlot>& plot,
                const std::vector<result::SweepAxis>& axes) {
  result::Sweep shape;
  shape.axes = axes;
  if (plot && given.svg.empty()) {
    throw option_fault("--plot", "names a picture; expected --svg FILE too");
  }
  if (const std::string why = plot ? report::lacks(shape, *plot) : ""; !why.empty()) {
    throw option_fault("--plot", why);
  }
  if (given.columns && given.csv.empty()) {
    throw option_fault("--columns", "describes a table; expected --csv FILE too");
  }
}

void write_sweep(Outputs& outputs, const SweepOptions& given,
                 const std::optional<report::SweepPlot>& plot, const result::Sweep& sweep) {
  outputs.give("--json", [&] { return report::json(sweep); });
  outputs.give("--csv",
               [&] { return given.columns ? report::csv_columns(sweep) : report::csv(sweep); });
  outputs.give("--svg", [&] { return report::svg(sweep, plot ? *plot : report::plot_of(sweep)); });
  outputs.give("--html", [&] { return report::html(sweep); });
  constexpr int kWidth = 150;
  const bool piped = search::launched();
  outputs.finish("sweep", [&] {
    return report::terminal(sweep, !piped && terminal_colour(),
                            std::max(piped ? 0 : terminal_width(), kWidth));
  });
}

std::string sweep_line(const planner::SweepProgress& p) {
  std::string out = fmt::format("{:.1f} s: {} of {} points", p.seconds, p.done, p.points);
  if (p.without > 0) {
    out += fmt::format(", {} without a forecast", p.without);
  }
  return p.seconds_left < 0 ? out : out + fmt::format(" ({} left)", brief(p.seconds_left));
}

std::string last_sweep_line(const planner::SweepProgress& p) {
  return fmt::format(
      "{} points in {:.2f} s: {} computed, {:.0f} a second, {} more from the store\n", p.points,
      p.seconds, p.computed, static_cast<double>(p.computed) / std::max(p.seconds, 1e-9), p.reused);
}

// Reports the first point at which the simulator itself failed; false: there is none.
bool say_failures(const result::Sweep& sweep) {
  const auto failed = [](const result::SweepPoint& p) { return p.failed; };
  const auto first = std::find_if(sweep.points.begin(), sweep.points.end(), failed);
  if (first == sweep.points.end()) {
    return false;
  }
  write_stderr(fmt::format("simulate: error: {} of {} points failed, such as {}: {}\n",
                           std::count_if(first, sweep.points.end(), failed), sweep.points.size(),
                           fmt::join(first->overrides, " "), first->reason));
  return true;
}

int sweep_and_print(const SweepOptions& given, planner::SweepRequest request) {
  const auto plot = plot_named(given.plot);
  check_plot(given, plot, request.axes);
  Outputs outputs;
  outputs.add("--json", given.json);
  outputs.add("--csv", given.csv);
  outputs.add("--svg", given.svg);
  outputs.add("--html", given.html);
  std::optional<store::Store> store;
  if (!given.store.empty()) {
    store.emplace("--store", given.store, store::model_version(text::data_directory()));
    request.store = &*store;
  }
  if (request.world->without_mpi()) {
    write_stderr("simulate: this build has no MPI: the first process works alone\n");
  }
  say_when_ended("sweep", given.store, request.world->size());
  ProgressLine line("sweep", request.store);
  request.progress = [&](const planner::SweepProgress& p) {
    p.finished ? line.finish(last_sweep_line(p)) : line.show(p.seconds, sweep_line(p));
  };
  const result::Sweep sweep = planner::sweep(request, text::data_directory());
  write_sweep(outputs, given, plot, sweep);
  const bool failed = say_failures(sweep);
  if (store && !store->trouble().empty()) {  // reported when it began
    return bad_input;
  }
  const bool any = std::any_of(sweep.points.begin(), sweep.points.end(),
                               [](const result::SweepPoint& p) { return p.fits; });
  return any && !failed ? done : cannot_run;
}

int run_sweep(const SweepOptions& given) {
  planner::SweepRequest request = sweep_request(given);
  auto world = std::make_unique<search::World>();
  request.world = world.get();
  if (world->rank() == 0) {
    return sweep_and_print(given, std::move(request));
  }
  planner::follow_sweep(request, text::data_directory());
  world.reset();
  std::_Exit(done);  // without waiting for points that are no longer needed
}

void add_outputs(Command& app, SweepOptions& given) {
  app.add_option("--store", given.store,
                 "keep each point in this file, from which the same sweep continues")
      .type_name("FILE");
  add_output(app, "--json", given.json, "write the sweep as JSON");
  add_output(app, "--csv", given.csv, "write a line for each point");
  app.add_flag("--columns", given.columns,
               "with --csv: write names, types and units of the columns instead of the points");
  add_output(app, "--svg", given.svg, "draw the sweep");
  add_output(app, "--html", given.html, "write the sweep as one page");
  app.add_option("--plot", given.plot,
                 "scaling | heatmap | pareto; left out: the one that suits the varied keys")
      .type_name("NAME");
}

}  // namespace

Run add_sweep(Command& app) {
  auto given = std::make_shared<SweepOptions>();
  add_job_options(app, given->job);
  add_margin_option(app, given->job);
  app.add_option("--vary", given->vary,
                 "values of a key: a list 1,2,4, or a range 8..1024*2, 1..9+2 or 1..9; keys that "
                 "change together: a,b=1:2,2:4")
      .type_name("KEY=VALUES")
      .one_value();
  app.add_option("--fidelity", given->fidelity,
                 "bound (closed-form lower bound) | folded (equal ranks are simulated once) | full "
                 "(every rank)")
      .type_name("NAME")
      .show_default();
  app.add_flag("--optimize", given->optimize, "search the best strategy of each point");
  app.add_option("--space", given->space,
                 "space that --optimize searches: a path, or a name in configs/spaces (by default: "
                 "default)")
      .type_name("FILE");
  app.add_option("--objective", given->objective,
                 "what --optimize minimises: time | cost | energy (by default time)")
      .type_name("NAME");
  app.add_option(
         "--threads", given->threads,
         "number of threads of each process, at most four for each core or sixteen; the result "
         "does not depend on it")
      .type_name("N");
  add_outputs(app, *given);
  app.footer =
      "Examples:\n"
      "  simulate sweep --config llama70b --vary cluster.nodes=8..1024*2 --svg scaling.svg\n"
      "  simulate sweep --config llama70b --vary cluster.nodes=16..256*2 --vary "
      "cluster.use=dgx-h100,dgx-b200 --optimize --store sweep.db\n"
      "  mpirun -n 64 simulate sweep --config llama405b --vary cluster.nodes=512,1024,2048 --csv "
      "-\n"
      "A point that is impossible or does not fit is a row with its reason.\n"
      "Exit status: 0 at least one point fits; 1 none does, or the simulator failed at a point "
      "(its row states\nthe error; the others are computed, and no store keeps that row); 2 bad "
      "input, or the store lacks points.";
  return [given] { return run_sweep(*given); };
}

}  // namespace stepcast::cli
