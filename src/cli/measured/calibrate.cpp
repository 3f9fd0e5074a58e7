// simulate calibrate WHAT: one file each for nccl, gpu, runs and trace.
#include <iterator>
#include <string>

#include "../command_line/command_line.h"
#include "commands.h"

namespace stepcast::cli {
namespace {

struct Kind {
  const char* name;
  const char* summary;
  Run (*add)(Command&);
};

constexpr Kind kinds[] = {
    {"nccl", "fit collectives to your own nccl-tests logs", add_calibrate_nccl},
    {"gpu", "fit kernels to measurements of calibrate-gpu or published tables", add_calibrate_gpu},
    {"runs", "fit a site's clock, host, overlap and fabric to your own measured steps",
     add_calibrate_runs},
    {"trace", "fit the same to a profile of your own job", add_calibrate_trace},
};

}  // namespace

Run add_calibrate(Command& app) {
  app.footer = "Example:\n  simulate calibrate nccl --help";
  for (const Kind& kind : kinds) {
    Command& command = app.add_command(kind.name, kind.summary);
    command.run = kind.add(command);
  }
  return [&app] {
    for (const Command& command : app.commands) {
      if (command.chosen) {
        for (const std::function<void()>& settle : command.settle) {
          settle();
        }
        return command.run();
      }
    }
    std::string names;
    for (const Kind& kind : kinds) {
      names += (names.empty() ? "" : &kind == std::end(kinds) - 1 ? " or " : ", ");
      names += kind.name;
    }
    throw option_fault("calibrate", "missing; expected " + names + ", and files");
  };
}

}  // namespace stepcast::cli
