// simulate memory: each stage's memory over one step, buffer by buffer.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "../command_line/command_line.h"
#include "../command_line/terminal.h"
#include "../options/job_options.h"
#include "../output/outputs.h"
#include "commands.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/interop/torch_snapshot.h"
#include "stepcast/report/report.h"
#include "stepcast/text/document.h"

namespace stepcast::cli {
namespace {

struct MemoryOptions {
  JobOptions job;
  std::string stage;
  std::string json, snapshot, svg;
};

// Leaves the stage that was asked for.
void choose(result::MemoryTimeline& memory, const std::string& text) {
  const int stage = integer_option("--stage", text, 0);
  std::erase_if(memory.stages, [&](const auto& s) { return s.stage != stage; });
}

int run_memory(const MemoryOptions& given) {
  if (given.snapshot == "-") {
    throw option_fault("--snapshot", "a snapshot is binary; expected a file name");
  }
  const config::Loaded loaded = load(given.job);
  if (const int last = loaded.job.parallelism.pipeline - 1;
      !given.stage.empty() && integer_option("--stage", given.stage, 0) > last) {
    throw option_fault("--stage", fmt::format("there is no stage {}; expected one from 0 to {}",
                                              given.stage, last));
  }
  Outputs outputs;
  outputs.add("--json", given.json);
  outputs.add("--svg", given.svg);
  outputs.add("--snapshot", given.snapshot);

  forecast::Forecaster forecaster(text::data_directory());
  auto outcome = forecaster.memory(loaded.job);
  result::MemoryTimeline& memory = forecast_of(outcome, loaded);
  memory.job_json = config::to_json(loaded.job);
  if (!given.stage.empty()) {
    choose(memory, given.stage);
  }
  outputs.give("--json", [&] { return report::json(memory); });
  outputs.give("--svg", [&] { return report::svg(memory); });
  outputs.give("--snapshot", [&] { return interop::torch_snapshot(memory); });
  outputs.finish("memory",
                 [&] { return report::terminal(memory, terminal_colour(), terminal_width()); });
  return memory.fits ? done : cannot_run;
}

}  // namespace

Run add_memory(Command& app) {
  auto given = std::make_shared<MemoryOptions>();
  add_job_options(app, given->job);
  app.add_option("--stage", given->stage, "only this pipeline stage").type_name("N");
  add_seed_option(app, given->job);
  add_output(app, "--json", given->json, "write the timeline as JSON");
  app.add_option(
         "--snapshot", given->snapshot,
         "write a PyTorch memory snapshot for pytorch.org/memory_viz, with one device per stage")
      .type_name("FILE");
  add_output(app, "--svg", given->svg, "draw the timeline");
  app.footer =
      "Examples:\n"
      "  simulate memory --config llama70b.yaml\n"
      "  simulate memory --config llama70b.yaml --stage 3 --set memory.recompute=selective\n"
      "  simulate memory --config llama70b.yaml --snapshot memory.pickle --svg memory.svg\n"
      "Exit status: 0 the job fits in memory; 1 it does not (the report is still printed); 2 bad "
      "input.";
  return [given] { return run_memory(*given); };
}

}  // namespace stepcast::cli
