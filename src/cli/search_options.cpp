#include "search_options.h"

#include <fmt/format.h>

#include "command_line.h"
#include "stepcast/text/document.h"

namespace stepcast::cli {

forecast::Fidelity fidelity_of(const std::string& name) {
  if (const auto fidelity = parse<forecast::Fidelity>(name)) {
    return *fidelity;
  }
  const std::string near = nearest(name, {"bound", "folded", "full"});
  throw option_fault("--fidelity",
                     fmt::format("unknown fidelity '{}'; expected bound, folded or full{}", name,
                                 near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near)));
}

search::Objective objective_of(const std::string& name) {
  if (const auto objective = parse<search::Objective>(name)) {
    return *objective;
  }
  throw option_fault("--objective",
                     fmt::format("unknown objective '{}'; expected time, cost or energy", name));
}

// A path, or a name in configs/spaces.
std::filesystem::path space_file(const std::string& name) {
  const std::filesystem::path preset =
      text::data_directory() / "configs" / "spaces" / (name + ".yaml");
  return std::filesystem::exists(preset) ? preset : std::filesystem::path(name);
}

}  // namespace stepcast::cli
