// Models of configs/ by the names that other programs and tables give them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace stepcast::interop {

// The file of configs/models that a name means: by its letters and digits only, or by an alias.
std::optional<std::string> known_model(std::string_view name);

}  // namespace stepcast::interop
