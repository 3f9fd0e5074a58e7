#include "search_algorithms.h"

#include <algorithm>
#include <optional>

#include "../command_line/command_line.h"
#include "../command_line/terminal.h"
#include "commands.h"
#include "stepcast/report/pages.h"
#include "stepcast/report/report.h"
#include "stepcast/text/document.h"

namespace stepcast::cli {

namespace {

automatic::AlgorithmRequest::Degrees degrees_of(const std::string& text) {
  using Degrees = automatic::AlgorithmRequest::Degrees;
  if (text.empty() || text == "auto") {
    return Degrees::automatic;
  }
  if (text == "exact") {
    return Degrees::exact;
  }
  if (text == "evolutionary") {
    return Degrees::evolutionary;
  }
  if (text == "annealing") {
    return Degrees::annealing;
  }
  throw option_fault("--degrees", "unknown search '" + text +
                                      "'; expected auto, exact, evolutionary or annealing");
}

}  // namespace

std::optional<std::vector<std::string>> compare_algorithms(
    const AlgorithmOptions& given, const search::Request& request, const job::Job& base,
    const search::JobLoader& loader, const std::string& title, Outputs& outputs) {
  automatic::AlgorithmRequest asked;
  const bool all = std::find(given.names.begin(), given.names.end(), "all") != given.names.end();
  asked.names = all ? automatic::algorithm_names() : given.names;
  if (!given.seed.empty()) {
    asked.seed = static_cast<std::uint64_t>(integer_option("--seed", given.seed, 0));
  }
  asked.fixed = given.fixed;
  asked.schedule_file = given.schedule_file;
  asked.degrees = degrees_of(given.degrees);
  const bool adapts = std::find(asked.names.begin(), asked.names.end(), "ahp") != asked.names.end();
  if (!adapts && !(given.degrees.empty() && given.schedule_file.empty())) {
    throw option_fault(given.degrees.empty() ? "--schedule-file" : "--degrees",
                       "applies only to --algorithm ahp; expected ahp among the algorithms");
  }
  std::optional<OutputFile> order;
  if (!given.schedule_file.empty()) {
    if (!given.schedule_file.ends_with(".csv")) {
      throw option_fault("--schedule-file",
                         "a job names a table of passes by '.csv'; expected FILE.csv");
    }
    order.emplace("--schedule-file", given.schedule_file);
  }
  const bool on_graph = std::any_of(asked.names.begin(), asked.names.end(), [](const auto& name) {
    return name == "alpa" || name == "nnscaler" || name == "flexflow";
  });
  if (!given.constraints.empty() && !on_graph) {
    throw option_fault(
        "--constraints",
        "applies only to --algorithm alpa, nnscaler or flexflow; expected one of them");
  }
  asked.constraints = given.constraints;
  result::Algorithms answers =
      automatic::run_algorithms(request, asked, base, loader, text::data_directory());
  answers.title = title;
  outputs.give("--json", [&] { return report::json(answers); });
  outputs.give("--html", [&] { return report::html(answers); });
  outputs.finish("search",
                 [&] { return report::terminal(answers, terminal_colour(), terminal_width()); });
  const auto made = std::find_if(answers.answers.begin(), answers.answers.end(),
                                 [](const auto& a) { return !a.schedule.empty(); });
  if (order && made != answers.answers.end()) {
    order->write(made->schedule);
    order->commit();
  }
  const result::Strategy* best = nullptr;
  for (const auto& a : answers.answers) {
    if (a.found && a.strategy.fits && (best == nullptr || a.strategy.objective < best->objective)) {
      best = &a.strategy;
    }
  }
  if (best == nullptr) {
    return std::nullopt;
  }
  return best->overrides;
}

}  // namespace stepcast::cli
