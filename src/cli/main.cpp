// The command line `simulate`. Exit status: 0 done; 1 the job cannot run; 2 bad input, one line per
// fault.
#include <functional>
#include <string>
#include <vector>

#include "command_line/arguments.h"
#include "command_line/command_line.h"
#include "help/commands.h"
#include "job/commands.h"
#include "lists/commands.h"
#include "measured/commands.h"
#include "output/output.h"
#include "pieces/commands.h"
#include "process/heap.h"
#include "search/commands.h"
#include "stepcast/search/world.h"

namespace {

using namespace stepcast;
using namespace stepcast::cli;

struct Subcommand {
  const char* name;
  const char* summary;
  Run (*add)(Command&);
};

// In the order that --help prints.
constexpr Subcommand subcommands[] = {
    {"validate", "compare forecasts with published measurements", add_validate},
    {"collective", "predict a collective as nccl-tests prints it, or compare with a log",
     add_collective},
    {"calibrate", "fit collectives, kernels or a site to your own measurements", add_calibrate},
    {"capture", "record what a training command does in a step, without a GPU", add_capture},
    {"kernels", "compare predicted kernels with measured points", add_kernels},
    {"memory", "memory of each stage over the step, by category and buffer", add_memory},
    {"explain", "where the time goes, how uncertain it is, and how a measured step compares",
     add_explain},
    {"trace", "where the time of profiled steps goes, from traces of PyTorch's profiler",
     add_trace},
    {"schedule", "play a pipeline schedule on given stage times", add_schedule},
    {"systems", "what each training system can run, with the marks of the survey", add_systems},
    {"search", "the fastest or cheapest strategy of a space, with a proof that it is", add_search},
    {"sweep", "forecast a job for all combinations of nodes, devices, or values of any key",
     add_sweep},
    {"plan", "which clusters of a catalogue meet a deadline, a budget and a power limit", add_plan},
    {"discover", "write a cluster file from what NCCL, nvidia-smi, Slurm or Kubernetes report",
     add_discover},
    {"serve", "a local web page: change the job, see the forecast", add_serve},
    {"goodput", "the useful share of a long run, after failures, checkpoints and repairs",
     add_goodput},
    {"export", "write a job as a job file, or as a training system's launch files", add_export},
    {"compare", "forecast one job under many training systems", add_compare},
    {"diff", "two jobs or forecasts beside each other: figures, and keys that differ", add_diff},
    {"models", "the models in configs/, with their sizes", add_models},
    {"devices", "the devices, with memory, peaks and what their times rest on", add_devices},
    {"clusters", "the clusters, with their devices, links and networks", add_clusters},
    {"jobs", "the ready jobs", add_jobs},
    {"schedules", "the pipeline schedules", add_schedules},
    {"schema", "print the JSON Schema of a job file", add_schema},
};

// The command below, if one was named; it looks for what is below itself.
Command& chosen_below(Command& program) {
  for (Command& command : program.commands) {
    if (command.chosen) {
      return command;
    }
  }
  return program;
}

int run_program(const std::vector<std::string>& arguments) {
  Command program;
  program.name = "simulate";
  program.summary = "Forecasts one training step of a large language model on a GPU cluster.";
  program.version = "stepcast " STEPCAST_VERSION;
  program.footer =
      "Examples:\n"
      "  simulate llama70b\n"
      "  simulate llama70b tp=4 pp=8 --json -\n"
      "  simulate --config llama70b.yaml --trace step.pftrace\n"
      "  simulate --from megatron train.sh --cluster dgx-h100 --nodes 64\n"
      "  simulate memory --config llama70b.yaml --snapshot memory.pickle\n"
      "  simulate validate rows.jsonl\n"
      "Exit status: 0 done; 1 the job cannot run (it does not fit in memory); 2 bad input.";
  program.run = add_job(program);
  for (const Subcommand& subcommand : subcommands) {
    Command& command = program.add_command(subcommand.name, subcommand.summary);
    command.run = subcommand.add(command);
  }
  Command& completion =
      program.add_command("completion", "a script that completes words in bash, zsh or fish");
  completion.run = add_completion(completion, program);
  Command& man = program.add_command("man", "manual pages in roff, as they are installed");
  man.run = add_man(man, program);
  if (const auto reading = parse_arguments(program, arguments)) {
    write_stdout(reading->option, reading->text);
    return done;
  }
  Command& chosen = chosen_below(program);
  // Processes of one launch divide a search or a sweep; of anything else the first does it all, and
  // the others would print and write the same again.
  const bool divided = chosen.name == "search" || chosen.name == "sweep";
  if (!divided && search::launched_rank() > 0) {
    return done;
  }
  if (chosen.name != "serve") {  // which gives back what each answer took
    take_huge_pages();
  }
  for (const std::function<void()>& settle : chosen.settle) {
    settle();
  }
  return chosen.run();
}

}  // namespace

int main(int argc, char** argv) {
  keep_freed_memory();
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return with_faults([&] { return run_program(arguments); });
}
