// The files of src/serve/assets, embedded at build time (scripts/cmake/assets.cmake).
#pragma once

#include <string_view>

namespace stepcast::serve {

// Returns the text of the file `name`. Throws std::logic_error when there is none.
std::string_view asset(std::string_view name);

}  // namespace stepcast::serve
