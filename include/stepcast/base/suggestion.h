// What a message adds where a name is unknown.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

// The candidate nearest to `word` as " (did you mean 'x'?)"; "" when none is near enough.
std::string suggestion(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace stepcast
