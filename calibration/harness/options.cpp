#include "harness/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "harness/plan.h"
#include "stepcast/base/diagnostics.h"

namespace stepcast::harness {
namespace {

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

void check_kinds(const std::vector<std::string>& kinds) {
  const std::vector<std::string> known(kKinds.begin(), kKinds.end());
  for (const std::string& kind : kinds) {
    if (std::find(known.begin(), known.end(), kind) != known.end()) {
      continue;
    }
    const std::string near = nearest(kind, known);
    std::string all;
    for (const std::string& k : known) {
      all += (all.empty() ? "" : ", ") + k;
    }
    throw UsageError("--only " + kind + ": no such kind (" +
                     (near.empty() ? "there are " + all : "did you mean '" + near + "'?") + ")");
  }
}

}  // namespace

Options parse_options(int argc, const char* const* argv) {
  Options o;
  CLI::App app{
      "Measures this machine's GPU for `simulate calibrate gpu`: one command, resumable.\n"
      "Run the same command again to go on with an interrupted or shorter run.",
      "calibrate-gpu"};
  app.set_version_flag("--version", STEPCAST_HARNESS_VERSION);
  app.add_option("--output", o.output,
                 "File to write or go on with (default: measurements-<gpu>.jsonl)");
  app.add_option("--minutes", o.minutes, "Time budget; the most valuable cases come first")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 10080.0));
  app.add_option("--only", o.only,
                 "Kinds: gemm,attention,memory,copy,launch,collective,overlap,layer")
      ->delimiter(',');
  app.add_option("--models", o.models, "Models of configs/models whose shapes are measured")
      ->delimiter(',');
  app.add_option("--gpu", o.gpu, "The GPU to measure, among the visible ones")
      ->check(CLI::Range(0, 1023));
  app.add_option("--gpus", o.gpus, "GPUs of a node for collectives (default: all)")
      ->check(CLI::Range(1, 1024));
  app.add_option("--seed", o.seed, "Of random operands and of the order of cases")
      ->capture_default_str();
  app.add_flag("--dry-run", o.dry_run, "List what would be measured, with estimated times");
  app.add_option("--device", o.device, "With --dry-run: plan for this device of configs/devices");
  app.add_flag("--nccl-table", o.nccl_table,
               "Print collectives as nccl-tests does (alone: measures only these)");
  app.add_flag("--list", o.list, "List kinds of measurements and devices of --device");
  app.add_flag("--quiet", o.quiet, "No progress, no summary");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help, --version
    o.help = dynamic_cast<const CLI::CallForHelp*>(&e) != nullptr ? app.help()
                                                                  : std::string(e.what()) + "\n";
    return o;
  } catch (const CLI::ParseError& e) {
    throw UsageError(first_line(e.what()) + " (--help lists the options)");
  }
  check_kinds(o.only);
  if (o.nccl_table && o.only.empty()) {
    o.only = {"collective"};
  }
  if (!o.device.empty() && !o.dry_run) {
    throw UsageError("--device is for --dry-run: a run measures the GPU that is there");
  }
  return o;
}

}  // namespace stepcast::harness
