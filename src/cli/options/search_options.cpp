#include "search_options.h"

#include <fmt/format.h>

#include "../command_line/command_line.h"
#include "stepcast/base/suggestion.h"
#include "stepcast/text/document.h"

namespace stepcast::cli {

forecast::Fidelity fidelity_of(const std::string& name) {
  if (const auto fidelity = parse<forecast::Fidelity>(name)) {
    return *fidelity;
  }
  throw option_fault("--fidelity",
                     fmt::format("unknown fidelity '{}'; expected bound, folded or full{}", name,
                                 suggestion(name, {"bound", "folded", "full"})));
}

search::Objective objective_of(const std::string& name) {
  if (const auto objective = parse<search::Objective>(name)) {
    return *objective;
  }
  throw option_fault("--objective",
                     fmt::format("unknown objective '{}'; expected time, cost or energy", name));
}

}  // namespace stepcast::cli
