// simulate diff A B: two jobs, or two forecasts that were written as JSON.
#include "stepcast/report/diff.h"

#include <fmt/format.h>

#include <memory>
#include <optional>

#include "../command_line/command_line.h"
#include "../command_line/terminal.h"
#include "../options/job_options.h"
#include "../output/outputs.h"
#include "commands.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/input/input.h"
#include "stepcast/report/report.h"
#include "stepcast/text/document.h"

namespace stepcast::cli {
namespace {

struct DiffOptions {
  std::vector<std::string> words;
  std::string json;
  std::string html;
};

struct DiffSide {
  report::Side side;
  std::optional<result::Report> report;  // nothing: read from JSON
};

// Words after a job, KEY=VALUE, are its overrides.
struct Named {
  std::string name;
  std::vector<std::string> overrides;
};

std::vector<Named> sides_of(const std::vector<std::string>& words) {
  std::vector<Named> out;
  for (const std::string& word : words) {
    const bool key = word.find('=') != std::string::npos;
    if (key && out.empty()) {
      throw option_fault(word, "stands before a job; expected the first job");
    }
    if (key) {
      out.back().overrides.push_back(config::whole_key(word));
    } else {
      out.push_back({word, {}});
    }
  }
  if (out.size() == 1 && !out.front().overrides.empty()) {  // a job against itself, changed
    out.insert(out.begin(), {out.front().name, {}});
  }
  if (out.size() != 2) {
    throw option_fault("diff", fmt::format("{} jobs or forecasts were given; expected two, or one "
                                           "and KEY=VALUE",
                                           out.size()));
  }
  return out;
}

DiffSide diff_side(const Named& named, bool trace) {
  std::string name = named.name;
  for (const std::string& one : named.overrides) {
    name += " " + one;
  }
  if (named.name.ends_with(".json") && named.overrides.empty()) {
    std::string text = text::read_text(named.name);
    if (text.find("\"step_time\"") != std::string::npos) {
      return {{name, std::move(text)}, std::nullopt};
    }
  }
  const config::Loaded loaded = input::load(named.name, named.overrides);
  forecast::Forecaster forecaster(text::data_directory());
  forecast::Options options;
  options.trace = trace;
  auto outcome = forecaster.forecast(loaded.job, options);
  result::Report report = std::move(forecast_of(outcome, loaded));
  report.job_json = config::to_json(loaded.job);
  std::string text = report::json(report);
  return {{name, std::move(text)}, std::move(report)};
}

int run_diff(const DiffOptions& given) {
  const std::vector<Named> sides = sides_of(given.words);
  Outputs outputs;
  outputs.add("--json", given.json);
  outputs.add("--html", given.html);
  const DiffSide a = diff_side(sides[0], !given.html.empty());
  const DiffSide b = diff_side(sides[1], !given.html.empty());
  const report::Diff diff = report::diff(a.side, b.side);
  outputs.give("--json", [&] { return report::json(diff); });
  outputs.give("--html", [&] {
    return report::html(diff, a.report ? &*a.report : nullptr, b.report ? &*b.report : nullptr);
  });
  outputs.finish("diff", [&] {
    constexpr int kWidth = 110;
    return report::terminal(diff, terminal_colour(), std::max(terminal_width(), kWidth));
  });
  return done;
}

}  // namespace

Run add_diff(Command& app) {
  auto given = std::make_shared<DiffOptions>();
  app.add_option(
         "job", given->words,
         "two jobs, each with its KEY=VALUE, or forecasts written with --json; one job with "
         "KEY=VALUE stands against itself")
      .type_name("A [KEY=VALUE ...] B [KEY=VALUE ...]");
  add_output(app, "--json", given->json, "write the differences as JSON");
  add_output(app, "--html", given->html, "write both as a page, timeline above timeline");
  app.footer =
      "Examples:\n"
      "  simulate diff llama70b tp=4 pp=8\n"
      "  simulate diff llama70b llama70b tp=4\n"
      "  simulate diff before.json after.json";
  return [given] { return run_diff(*given); };
}

}  // namespace stepcast::cli
