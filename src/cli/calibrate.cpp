// simulate calibrate WHAT: one file each for nccl, gpu and runs.
#include <utility>
#include <vector>

#include "command_line.h"
#include "commands.h"

namespace stepcast::cli {
namespace {

struct Kind {
  const char* name;
  const char* summary;
  Run (*add)(CLI::App&);
};

constexpr Kind kinds[] = {
    {"nccl", "collectives, from your own nccl-tests logs", add_calibrate_nccl},
    {"gpu", "kernels, from measurements of calibrate-gpu or published tables", add_calibrate_gpu},
    {"runs", "a site's clock, host, overlap and fabric, from your own measured steps",
     add_calibrate_runs},
};

}  // namespace

Run add_calibrate(CLI::App& app) {
  app.require_subcommand(0, 1);
  app.footer("Example:\n  simulate calibrate nccl --help");
  std::vector<std::pair<CLI::App*, Run>> runs;
  for (const Kind& kind : kinds) {
    CLI::App* sub = app.add_subcommand(kind.name, kind.summary);
    runs.emplace_back(sub, kind.add(*sub));
  }
  return [runs] {
    for (const auto& [sub, run] : runs) {
      if (sub->parsed()) {
        return run();
      }
    }
    std::string names;
    for (const Kind& kind : kinds) {
      names += (names.empty() ? "" : &kind == std::end(kinds) - 1 ? " or " : ", ");
      names += kind.name;
    }
    throw option_fault("calibrate", "missing what; expected " + names + ", and files");
  };
}

}  // namespace stepcast::cli
