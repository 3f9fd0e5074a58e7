// Files of src/serve/assets, built in (cmake/assets.cmake).
#pragma once

#include <string_view>

namespace stepcast::serve {

// The text of the file `name`. Throws std::logic_error when there is none.
std::string_view asset(std::string_view name);

}  // namespace stepcast::serve
