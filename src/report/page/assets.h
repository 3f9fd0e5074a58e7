// Files of src/report/page/assets, which are built into the library (scripts/cmake/assets.cmake).
#pragma once

#include <string_view>

namespace stepcast::report {

// The text of the file `name`. Throws std::logic_error when there is none.
std::string_view asset(std::string_view name);

}  // namespace stepcast::report
