// simulate models, devices, clusters, jobs and schedules: what configs/ and the schedules' table
// offer.
#include "stepcast/planner/presets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "../command_line/command_line.h"
#include "../command_line/terminal.h"
#include "../output/outputs.h"
#include "commands.h"
#include "stepcast/report/presets.h"
#include "stepcast/schedule/schedule.h"
#include "stepcast/text/document.h"

namespace stepcast::cli {
namespace {

struct PresetOptions {
  std::vector<std::string> words;
  std::string json;
};

std::vector<result::SchedulePreset> schedules() {
  std::vector<result::SchedulePreset> out;
  for (const schedule::Entry& entry : schedule::table()) {
    out.push_back({std::string(entry.name), std::string(entry.summary)});
  }
  return out;
}

template <class Read>
Run add_list(Command& app, Read read) {
  auto given = std::make_shared<PresetOptions>();
  app.add_option("WORD", given->words, "show only those that have all these words in a text")
      .type_name("...");
  add_output(app, "--json", given->json, "write the list as JSON");
  return [given, name = app.name, read] {
    constexpr int kWidth = 120;
    const report::PresetTable table =
        report::presets(read(), given->words, std::max(terminal_width(), kWidth));
    if (table.rows == 0) {
      throw option_fault(name, fmt::format("none has '{}'; expected words of simulate {}",
                                           fmt::join(given->words, " "), name));
    }
    Outputs outputs;
    outputs.add("--json", given->json, table.json);
    outputs.finish(name, [&] { return table.text; });
    return static_cast<int>(done);
  };
}

}  // namespace

Run add_models(Command& app) { return add_list(app, planner::models); }
Run add_devices(Command& app) {
  return add_list(app, [] { return planner::devices(text::data_directory()); });
}
Run add_clusters(Command& app) { return add_list(app, planner::clusters); }
Run add_jobs(Command& app) { return add_list(app, planner::jobs); }
Run add_schedules(Command& app) { return add_list(app, schedules); }

}  // namespace stepcast::cli
