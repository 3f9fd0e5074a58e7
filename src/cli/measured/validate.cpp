// simulate validate FILES: forecasts against measured runs.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <memory>

#include "../command_line/command_line.h"
#include "../command_line/terminal.h"
#include "../output/outputs.h"
#include "commands.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/report/report.h"
#include "stepcast/runs/read.h"
#include "stepcast/text/document.h"
#include "stepcast/validate/compare.h"

namespace stepcast::cli {
namespace {

struct ValidateOptions {
  std::vector<std::string> files;
  std::string json, html, markdown, csv;
  bool distinct = false;
};

int run_validate(const ValidateOptions& given) {
  if (given.files.empty()) {
    throw option_fault("validate", "no file given; expected JSON lines of measured runs");
  }
  std::vector<runs::Run> runs;
  for (const std::string& file : given.files) {
    auto more = runs::read(file);
    runs.insert(runs.end(), std::make_move_iterator(more.begin()),
                std::make_move_iterator(more.end()));
  }
  Outputs outputs;
  outputs.add("--json", given.json);
  outputs.add("--html", given.html);
  outputs.add("--markdown", given.markdown);
  outputs.add("--csv", given.csv);
  validate::Options options;
  options.distinct = given.distinct;
  if (::isatty(STDERR_FILENO) == 1) {
    options.progress = [](std::size_t n, std::size_t all) {
      write_stderr(fmt::format("\rrun {} of {} ", n + 1, all));
    };
  }
  const auto start = std::chrono::steady_clock::now();
  forecast::Forecaster forecaster(text::data_directory());
  const result::Validation validation = validate::compare(forecaster, runs, options);
  const auto stop = std::chrono::steady_clock::now();

  outputs.give("--json", [&] { return report::json(validation); });
  outputs.give("--html", [&] { return report::html(validation); });
  outputs.give("--markdown", [&] { return report::markdown(validation); });
  outputs.give("--csv", [&] { return report::csv(validation); });
  outputs.finish("validate", [&] { return report::terminal(validation, terminal_colour()); });
  write_stderr(fmt::format("{} runs in {:.1f} s\n", runs.size(),
                           std::chrono::duration<double>(stop - start).count()));
  for (const Fault& fault : validation.faults) {
    write_stderr(to_string(fault) + "\n");
  }
  return validation.faults.empty() ? done : bad_input;
}

}  // namespace

Run add_validate(Command& app) {
  auto given = std::make_shared<ValidateOptions>();
  app.add_option("files", given->files, "JSON lines of measured runs").type_name("FILE");
  add_output(app, "--json", given->json, "write the results as JSON");
  add_output(
      app, "--html", given->html,
      "write one page: a scatter plot of predicted against measured, a summary, and every run");
  add_output(app, "--markdown", given->markdown,
             "write the summary, the worst runs of each source and the runs left out as Markdown");
  add_output(app, "--csv", given->csv, "write a line for each result");
  app.add_flag("--distinct", given->distinct,
               "count runs of equal jobs once, whatever their cluster");
  app.footer =
      "A line names a job file, or holds the job itself, and states what was measured:\n"
      "  {\"config\": \"job.yaml\", \"measured\": {\"step_time\": 8.5}}\n"
      "  {\"id\": \"64 nodes\", \"config\": \"job.yaml\", \"set\": [\"cluster.nodes=64\"], "
      "\"measured\": {\"mfu\": 0.41, \"peak_memory\": 71.2e9}}\n"
      "simulate schema --runs prints every quantity.\n"
      "Examples:\n"
      "  simulate validate tests/validation/korthikanti.jsonl\n"
      "  simulate validate tests/validation/*.jsonl --json -\n"
      "  simulate validate runs.jsonl --html report.html --markdown report.md --csv results.csv\n"
      "Exit status: 0 done (runs that the program refuses are rows with the reason); 2 bad input: "
      "no "
      "run of a\nfaulty file is compared; a run whose job cannot be read is left out and said, one "
      "line a fault.";
  return [given] { return run_validate(*given); };
}

}  // namespace stepcast::cli
