// simulate systems: the training systems that a job may name.
#include <fmt/format.h>

#include "commands.h"
#include "output.h"
#include "stepcast/config/config.h"

namespace stepcast::cli {

Run add_systems(CLI::App& app) {
  app.footer("Example:\n  simulate systems");
  return [] {
    std::string text;
    for (const std::string& name : config::list("systems")) {
      text += fmt::format("{:<20} {}\n", name, config::system(name).generation);
    }
    write_stdout("systems", text);
    return static_cast<int>(done);
  };
}

}  // namespace stepcast::cli
