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

struct Options {
  std::vector<std::string> files;
  std::string json;
  bool distinct = false;
  bool list = false;
};

int run(const Options& given) {
  if (given.list) {
    std::string text = "accepted reasons to leave a row out:\n";
    for (const interop::SkipReason& reason : interop::skip_reasons()) {
      text += fmt::format("  {:<20} {}\n", reason.kind, reason.meaning);
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
  std::optional<OutputFile> json_file;
  if (!given.json.empty() && given.json != "-") {
    json_file.emplace("--json", given.json);
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

  if (json_file) {
    json_file->write(report::json(validation));
    json_file->commit();
  }
  if (given.json == "-") {
    write_stdout("--json -", report::json(validation));
  } else {
    write_stdout("validate", report::terminal(validation, terminal_colour()));
  }
  write_stderr(fmt::format("{} rows in {:.1f} s\n", rows.size(),
                           std::chrono::duration<double>(stop - start).count()));
  return done;
}

}  // namespace

Run add_validate(CLI::App& app) {
  auto given = std::make_shared<Options>();
  app.add_option("files", given->files, "JSON lines of published measurements")->type_name("FILE");
  app.add_option("--json", given->json, "write the results as JSON (- is standard output)")
      ->type_name("FILE");
  app.add_flag("--distinct", given->distinct,
               "count rows of one model, parallelism and implementation once");
  app.add_flag("--list", given->list, "print the accepted reasons to leave a row out");
  app.footer(
      "Examples:\n"
      "  simulate validate tests/validation/korthikanti.jsonl\n"
      "  simulate validate tests/validation/*.jsonl --json -");
  return [given] { return run(*given); };
}

}  // namespace stepcast::cli
