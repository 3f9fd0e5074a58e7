// simulate validate FILES: forecasts against published measurements.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>

#include "command_line.h"
#include "commands.h"
#include "output.h"
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
  using Writer = std::string (*)(const result::Validation&);
  struct Output {
    const char* option;
    const std::string* target;
    Writer write;
    std::unique_ptr<OutputFile> file;
  };
  std::vector<Output> outputs;  // opened before any work is done
  outputs.push_back({"--json", &given.json, report::json, nullptr});
  outputs.push_back({"--html", &given.html, report::html, nullptr});
  outputs.push_back({"--markdown", &given.markdown, report::markdown, nullptr});
  outputs.push_back({"--csv", &given.csv, report::csv, nullptr});
  const Output* on_stdout = nullptr;
  for (Output& output : outputs) {
    if (*output.target == "-") {
      if (on_stdout != nullptr) {
        throw option_fault(output.option, fmt::format("standard output is {}'s; expected a file",
                                                      on_stdout->option));
      }
      on_stdout = &output;
    } else if (!output.target->empty()) {
      output.file = std::make_unique<OutputFile>(output.option, *output.target);
    }
  }
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

  for (Output& output : outputs) {
    if (output.file) {
      output.file->write(output.write(validation));
      output.file->commit();
    }
  }
  if (on_stdout != nullptr) {
    write_stdout(on_stdout->option, on_stdout->write(validation));
  } else {
    write_stdout("validate", report::terminal(validation, terminal_colour()));
  }
  write_stderr(fmt::format("{} rows in {:.1f} s\n", rows.size(),
                           std::chrono::duration<double>(stop - start).count()));
  return done;
}

}  // namespace

Run add_validate(Command& app) {
  auto given = std::make_shared<ValidateOptions>();
  app.add_option("files", given->files, "JSON lines of published measurements").type_name("FILE");
  app.add_option("--json", given->json, "write the results as JSON (- is standard output)")
      .type_name("FILE");
  app.add_option("--html", given->html,
                 "write one page: scatter of predicted against measured, summary, every row")
      .type_name("FILE");
  app.add_option("--markdown", given->markdown,
                 "write the summary, each source's worst rows and what was left out as Markdown")
      .type_name("FILE");
  app.add_option("--csv", given->csv, "write a line per row").type_name("FILE");
  app.add_flag("--distinct", given->distinct,
               "count rows of one model, parallelism and implementation once");
  app.add_flag("--list", given->list, "print the reasons to leave a row out");
  app.footer =
      "Examples:\n"
      "  simulate validate tests/validation/korthikanti.jsonl\n"
      "  simulate validate tests/validation/*.jsonl --json -\n"
      "  simulate validate rows.jsonl --html report.html --markdown report.md --csv rows.csv";
  return [given] { return run_validate(*given); };
}

}  // namespace stepcast::cli
