// simulate export: a job as a job file, or as what a training system is launched with.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <utility>

#include "../command_line/command_line.h"
#include "../command_line/terminal.h"
#include "../options/export_formats.h"
#include "../options/job_options.h"
#include "../options/program.h"
#include "../output/outputs.h"
#include "commands.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/text/document.h"
#include "stepcast/trace/chakra.h"
#include "stepcast/trace/write.h"

namespace stepcast::cli {
namespace {

constexpr const char* kChakra = "chakra";  // what the engine runs
constexpr const char* kKineto = "kineto";

struct ExportOptions {
  JobOptions job;
  ProgramOptions program;  // in place of a job
  std::string cluster, nodes;
  std::string to;
  std::string output = "-";
};

// A forecast whose ranks are written.
struct Simulated {
  result::Report report;
  job::Cluster cluster;
  std::vector<int> first;  // rank of each stage
};

// Where ranks are folded, the file's rank is one of its stage.
trace::KinetoOptions kineto_options(const Simulated& of, std::uint32_t rank) {
  const program::World& world = of.report.trace->world;
  trace::KinetoOptions out;
  out.world_size = of.cluster.ranks();
  out.device = of.cluster.device.name;
  out.rank = rank;
  if (static_cast<int>(world.ranks.size()) < out.world_size) {
    const int stage = world.programs[world.ranks[rank].program].stage;
    int before = 0;  // classes of the same stage
    for (std::uint32_t r = 0; r < rank; ++r) {
      before += world.programs[world.ranks[r].program].stage == stage ? 1 : 0;
    }
    out.rank = of.first[static_cast<std::size_t>(stage)] + before;
  }
  return out;
}

forecast::Options simulation() {
  forecast::Options options;
  options.trace = true;
  options.samples = -1;
  options.allocator = forecast::Allocator::rule;
  return options;
}

Simulated simulated_job(const ExportOptions& given) {
  const config::Loaded loaded = load(given.job);
  forecast::Forecaster forecaster(text::data_directory());
  auto outcome = forecaster.forecast(loaded.job, simulation());
  Simulated out{std::move(forecast_of(outcome, loaded)), loaded.job.cluster, {}};
  const int stages = loaded.job.parallelism.pipeline;  // the outermost groups
  for (int stage = 0; stage < stages; ++stage) {
    out.first.push_back(stage * (loaded.job.cluster.ranks() / stages));
  }
  return out;
}

Simulated simulated_program(const ExportOptions& given) {
  if (!given.job.config.empty()) {
    throw option_fault("--program",
                       "a capture is exported without a job; expected --cluster and --nodes");
  }
  CapturedForecast forecast =
      forecast_program(given.program, given.cluster, integer_option("--nodes", given.nodes, 1, 0),
                       given.job.overrides, simulation());
  return {std::move(forecast.report), forecast.on.job.cluster, forecast.recorded};
}

// What each rank of the simulated world runs, a file a rank, or a class of ranks that run alike:
// FOLDER/rank-0.et. Kineto: the simulated step as a profile of it.
int export_ranks(const ExportOptions& given) {
  if (given.output == "-") {
    throw option_fault("--output", fmt::format("missing; --to {} writes a file for each class of "
                                               "ranks into a folder",
                                               given.to));
  }
  const Simulated of = given.program.file.empty() ? simulated_job(given) : simulated_program(given);
  const program::World& world = of.report.trace->world;
  const std::filesystem::path folder = given.output;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const bool chakra = given.to == kChakra;
  std::vector<std::unique_ptr<stepcast::OutputFile>> files;
  for (std::uint32_t rank = 0; rank < world.ranks.size(); ++rank) {
    const auto path = folder / fmt::format("rank-{}.{}", rank, chakra ? "et" : "json");
    try {
      files.push_back(std::make_unique<stepcast::OutputFile>(path));
      if (chakra) {
        trace::write_chakra(trace::chakra_of(of.report, rank), *files.back());
      } else {
        trace::write_kineto(of.report, rank, kineto_options(of, rank), *files.back());
      }
    } catch (const OutputError& fault) {
      throw option_fault("--output", fault.what());
    }
  }
  for (const auto& file : files) {
    file->commit();
  }
  write_stderr(fmt::format("{} file{} written: a rank of each class of {} ranks\n", files.size(),
                           files.size() == 1 ? " is" : "s are", of.cluster.ranks()));
  return done;
}

int run_export(const ExportOptions& given) {
  const bool ranks = given.to == kChakra || given.to == kKineto;
  if (given.program.file.empty()) {
    refuse_without_program(given.program);
    require_config(given.job);
  } else if (!given.to.empty() && !ranks) {
    throw option_fault("--to", fmt::format("{} says what a job states, which a capture is not; "
                                           "expected {} | {}",
                                           given.to, kChakra, kKineto));
  }
  if (given.to.empty()) {
    throw option_fault("--to", fmt::format("missing; expected {} | {} | {}",
                                           fmt::join(export_formats(), " | "), kChakra, kKineto));
  }
  if (ranks) {
    return export_ranks(given);
  }
  Outputs outputs;
  outputs.add("--output", given.output);
  const Exported exported = export_job(load(given.job), given.to);
  outputs.give("--output", [&] { return exported.text; });
  outputs.finish("export", [] { return std::string(); });
  write_stderr(exported.note(given.output == "-" ? "FILE" : given.output));
  return done;
}

}  // namespace

Run add_export(Command& app) {
  auto given = std::make_shared<ExportOptions>();
  add_job_options(app, given->job);
  add_program_options(app, given->program);
  app.add_option("--cluster", given->cluster, "with --program: the cluster").type_name("NAME");
  app.add_option("--nodes", given->nodes, "with --program: its number of nodes").type_name("N");
  app.add_option("--to", given->to,
                 fmt::format("{} | {} | {}", fmt::join(export_formats(), " | "), kChakra, kKineto))
      .type_name("FORMAT");
  add_output(app, "--output", given->output, "write the result to this file").show_default();
  app.footer =
      "The result is first read back: a key of the job that the format cannot express is a\n"
      "fault that names it. The command that reads the file goes to standard error.\n"
      "chakra and kineto: what the engine runs, as execution traces and as profiles; --output is "
      "a\n"
      "folder, and each class of ranks that run alike has a file. simulate trace reads both.\n"
      "Examples:\n"
      "  simulate export --config llama70b --to chakra --output traces\n"
      "  simulate export --program job.jsonl.gz --cluster dgx-h100 --to chakra --output traces\n"
      "  simulate export --config llama70b --to megatron --output train.sh\n"
      "  simulate export --config llama8b-fsdp --set system=torchtitan --to torchtitan\n"
      "  simulate search --config llama70b --export megatron=train.sh\n"
      "Exit status: 0 done; 2 bad input, or a job that the format cannot express.";
  return [given] { return run_export(*given); };
}

}  // namespace stepcast::cli
