// simulate validate FILES: forecasts against published measurements.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <memory>

#include "command_line.h"
#include "commands.h"
#include "outputs.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/interop/published_rows.h"
#include "stepcast/report/report.h"
#include "stepcast/text/document.h"
#include "stepcast/validate/published.h"

namespace stepcast::cli {
namespace {

struct ValidateOptions {
  std::vector<std::string> files;
  std::string json, html, markdown, csv;
  bool distinct = false;
  bool list = false;
};

int run_validate(const ValidateOptions& given) {
  if (given.list) {
    std::string text = "reasons to leave a row out, accepted:\n";
    for (const bool accepted : {true, false}) {
      for (const interop::SkipReason& reason : interop::skip_reasons()) {
        if (reason.accepted == accepted) {
          text += fmt::format("  {:<20} {}\n", reason.kind, reason.meaning);
        }
      }
      text += accepted ? "not accepted (such a row counts as its source's worst error):\n" : "";
    }
    write_stdout("--list", text);
    return done;
  }
  if (given.files.empty()) {
    throw option_fault("validate", "no file given; expected JSON lines of published measurements");
  }
  std::vector<interop::PublishedRow> rows;
  for (const std::string& file : given.files) {
    auto more = interop::read_rows(file);
    rows.insert(rows.end(), std::make_move_iterator(more.begin()),
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
      write_stderr(fmt::format("\rrow {} of {} ", n + 1, all));
    };
  }
  const auto start = std::chrono::steady_clock::now();
  forecast::Forecaster forecaster(text::data_directory());
  const result::Validation validation = validate::compare(forecaster, rows, options);
  const auto stop = std::chrono::steady_clock::now();

  outputs.give("--json", [&] { return report::json(validation); });
  outputs.give("--html", [&] { return report::html(validation); });
  outputs.give("--markdown", [&] { return report::markdown(validation); });
  outputs.give("--csv", [&] { return report::csv(validation); });
  outputs.finish("validate", [&] { return report::terminal(validation, terminal_colour()); });
  write_stderr(fmt::format("{} rows in {:.1f} s\n", rows.size(),
                           std::chrono::duration<double>(stop - start).count()));
  return done;
}

}  // namespace

Run add_validate(Command& app) {
  auto given = std::make_shared<ValidateOptions>();
  app.add_option("files", given->files, "JSON lines of published measurements").type_name("FILE");
  add_output(app, "--json", given->json, "write the results as JSON");
  add_output(
      app, "--html", given->html,
      "write one page: a scatter plot of predicted against measured, a summary, and every row");
  add_output(app, "--markdown", given->markdown,
             "write the summary, the worst rows of each source and the rows left out as Markdown");
  add_output(app, "--csv", given->csv, "write a line for each row");
  app.add_flag("--distinct", given->distinct,
               "count rows of equal model, parallelism and implementation once");
  app.add_flag("--list", given->list, "print the reasons for leaving a row out");
  app.footer =
      "Examples:\n"
      "  simulate validate tests/validation/korthikanti.jsonl\n"
      "  simulate validate tests/validation/*.jsonl --json -\n"
      "  simulate validate rows.jsonl --html report.html --markdown report.md --csv rows.csv";
  return [given] { return run_validate(*given); };
}

}  // namespace stepcast::cli
