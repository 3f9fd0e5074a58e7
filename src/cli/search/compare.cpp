// simulate compare: one job under many training systems.
#include "stepcast/planner/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "../command_line/command_line.h"
#include "../command_line/terminal.h"
#include "../options/job_options.h"
#include "../output/outputs.h"
#include "commands.h"
#include "stepcast/base/suggestion.h"
#include "stepcast/config/config.h"
#include "stepcast/report/pages.h"
#include "stepcast/report/report.h"
#include "stepcast/text/document.h"

namespace stepcast::cli {
namespace {

struct CompareOptions {
  JobOptions job;
  std::string systems = "all";
  std::string json;
  std::string svg, html;
};

std::vector<std::string> chosen_systems(const std::string& text) {
  if (text == "all") {
    return planner::systems(false);
  }
  const std::vector<std::string> known = config::list("systems");
  std::vector<std::string> out;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::string name = text.substr(begin, end - begin);
    std::replace(name.begin(), name.end(), '_', '-');
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw option_fault(
          "--systems",
          fmt::format("there is no training system '{}'; expected all, or names such as "
                      "megatron-lm,deepspeed{}",
                      name, suggestion(name, known)));
    }
    if (std::find(out.begin(), out.end(), name) == out.end()) {
      out.push_back(name);
    }
    begin = end + 1;
  }
  return out;
}

int run_compare(const CompareOptions& given) {
  require_config(given.job);
  planner::CompareRequest request;
  request.config = given.job.config;
  request.overrides = given.job.overrides;
  request.systems = chosen_systems(given.systems);

  Outputs outputs;
  outputs.add("--json", given.json);
  outputs.add("--svg", given.svg);
  outputs.add("--html", given.html);

  forecast::Forecaster forecaster(text::data_directory());
  const result::Comparison comparison =
      planner::compare(request, forecaster, [](const result::ComparedSystem& s) {
        write_stderr(fmt::format("{}: {}\n", s.name,
                                 s.ran ? fmt::format("{:.4g} s", s.step_time.value) : s.reason));
      });
  outputs.give("--json", [&] { return report::json(comparison); });
  outputs.give("--svg", [&] { return report::svg(comparison); });
  outputs.give("--html", [&] { return report::html(comparison); });
  outputs.finish("compare", [&] {
    return report::terminal(comparison, terminal_colour(), std::max(terminal_width(), 150));
  });
  const bool any = std::any_of(comparison.systems.begin(), comparison.systems.end(),
                               [](const auto& s) { return s.ran && s.fits; });
  return any ? done : cannot_run;
}

}  // namespace

Run add_compare(Command& app) {
  auto given = std::make_shared<CompareOptions>();
  add_job_options(app, given->job);
  add_margin_option(app, given->job);
  app.add_option("--systems", given->systems, "all, or names separated by commas")
      .type_name("NAMES")
      .show_default();
  add_output(app, "--json", given->json, "write the comparison as JSON");
  add_output(app, "--svg", given->svg, "draw step times as bars");
  add_output(app, "--html", given->html, "write the comparison as one self-contained page");
  app.footer =
      "The values that the job states are the same for all; only those that a training system sets "
      "differ.\n"
      "Examples:\n"
      "  simulate compare --config llama8b-fsdp --systems all\n"
      "  simulate compare --config llama70b --systems megatron-lm,deepspeed,megascale --svg "
      "bars.svg\n"
      "Exit status: 0 at least one system runs the job within memory; 1 none does; 2 bad input.";
  return [given] { return run_compare(*given); };
}

}  // namespace stepcast::cli
