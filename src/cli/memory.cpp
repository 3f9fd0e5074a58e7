// simulate memory: each stage's memory over one step, buffer by buffer.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "command_line.h"
#include "commands.h"
#include "output.h"
#include "stepcast/config/config.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/interop/torch_snapshot.h"
#include "stepcast/report/report.h"
#include "stepcast/text/document.h"

namespace stepcast::cli {
namespace {

struct Options {
  std::string config;
  std::vector<std::string> overrides;
  std::string stage, seed;
  std::string json, snapshot, svg;
};

// Leaves the stage that was asked for.
void choose(result::MemoryTimeline& memory, const std::string& text) {
  const int stage = integer_option("--stage", text, 0);
  std::erase_if(memory.stages, [&](const auto& s) { return s.stage != stage; });
}

int run(const Options& given) {
  if (given.config.empty()) {
    throw option_fault("--config",
                       "missing; expected a job file or the name of one in configs/ "
                       "(simulate --list shows the names)");
  }
  if (given.svg == "-" && given.json == "-") {
    throw option_fault("--svg", "standard output is --json's; expected a file");
  }
  if (given.snapshot == "-") {
    throw option_fault("--snapshot", "a snapshot is binary; expected a file name");
  }
  config::Loaded loaded = config::load(given.config, given.overrides);
  if (!given.seed.empty()) {
    loaded.job.seed = static_cast<std::uint64_t>(integer_option("--seed", given.seed, 0));
  }
  if (const int last = loaded.job.parallelism.pipeline - 1;
      !given.stage.empty() && integer_option("--stage", given.stage, 0) > last) {
    throw option_fault("--stage", fmt::format("there is no stage {}; expected one from 0 to {}",
                                              given.stage, last));
  }
  std::vector<std::unique_ptr<OutputFile>> files;
  const auto prepare = [&](const char* option, const std::string& target) -> OutputFile* {
    if (target.empty() || target == "-") {
      return nullptr;
    }
    files.push_back(std::make_unique<OutputFile>(option, target));
    return files.back().get();
  };
  OutputFile* json_file = prepare("--json", given.json);
  OutputFile* svg_file = prepare("--svg", given.svg);
  OutputFile* snapshot_file = prepare("--snapshot", given.snapshot);

  forecast::Forecaster forecaster(text::data_directory());
  auto outcome = forecaster.memory(loaded.job);
  if (const auto* why = std::get_if<Infeasible>(&outcome)) {
    throw InputError(config::fault_of(loaded, *why));
  }
  auto& memory = std::get<result::MemoryTimeline>(outcome);
  memory.job_json = config::to_json(loaded.job);
  if (!given.stage.empty()) {
    choose(memory, given.stage);
  }
  if (json_file != nullptr) {
    json_file->write(report::json(memory));
  }
  if (svg_file != nullptr) {
    svg_file->write(report::svg(memory));
  }
  if (snapshot_file != nullptr) {
    snapshot_file->write(interop::torch_snapshot(memory));
  }
  write_stdout("memory", given.json == "-" ? report::json(memory)
                         : given.svg == "-"
                             ? report::svg(memory)
                             : report::terminal(memory, terminal_colour(), terminal_width()));
  for (auto& file : files) {
    file->commit();
  }
  return memory.fits ? done : cannot_run;
}

}  // namespace

Run add_memory(CLI::App& app) {
  auto given = std::make_shared<Options>();
  app.add_option("--config", given->config, "job: a path, or a name in configs/")
      ->type_name("NAME");
  app.add_option("--set", given->overrides, "override a key, as often as needed")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  app.add_option("--stage", given->stage, "one pipeline stage only")->type_name("N");
  app.add_option("--seed", given->seed, "seed of everything random")->type_name("N");
  app.add_option("--json", given->json, "write the timeline as JSON (- is standard output)")
      ->type_name("FILE");
  app.add_option("--snapshot", given->snapshot,
                 "write PyTorch's memory snapshot, for pytorch.org/memory_viz; a device is a stage")
      ->type_name("FILE");
  app.add_option("--svg", given->svg, "draw the timeline (- is standard output)")
      ->type_name("FILE");
  app.footer(
      "Examples:\n"
      "  simulate memory --config llama70b.yaml\n"
      "  simulate memory --config llama70b.yaml --stage 3 --set memory.recompute=selective\n"
      "  simulate memory --config llama70b.yaml --snapshot memory.pickle --svg memory.svg\n"
      "Exit status: 0 the job fits in memory; 1 it does not (the report is still printed); 2 bad "
      "input.");
  return [given] { return run(*given); };
}

}  // namespace stepcast::cli
