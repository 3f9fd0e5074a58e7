#include "search_options.h"

#include <fmt/format.h>

#include "command_line.h"
#include "stepcast/text/document.h"

namespace stepcast::cli {

forecast::Fidelity fidelity_of(const std::string& name) {
  if (name == "bound") {
    return forecast::Fidelity::bound;
  }
  if (name == "folded") {
    return forecast::Fidelity::folded;
  }
  if (name == "full") {
    return forecast::Fidelity::full;
  }
  const std::string near = nearest(name, {"bound", "folded", "full"});
  throw option_fault("--fidelity",
                     fmt::format("unknown fidelity '{}'; expected bound, folded or full{}", name,
                                 near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near)));
}

search::Objective objective_of(const std::string& name) {
  if (name == "time") {
    return search::Objective::time;
  }
  if (name == "cost") {
    return search::Objective::cost;
  }
  if (name == "energy") {
    return search::Objective::energy;
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
