// What conditions of a recipe make of values.
#pragma once

#include <string>

#include "../options/verdict.h"
#include "recipe_item.h"

namespace stepcast::interop::launch {

// Python's truth of a value.
Verdict truth_of(const Item& x);
// a == b
Verdict equal(const Item& a, const Item& b);
// a < b, and the other comparisons of whole numbers.
Verdict ordered(const Item& a, const std::string& sign, const Item& b);
// What is in a list, or among the keys of a dictionary of which every key is known.
Verdict contains(const Item& among, const Item& x);

}  // namespace stepcast::interop::launch
