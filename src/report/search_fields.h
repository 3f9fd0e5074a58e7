// What text and page say of a strategy search alike.
#pragma once

#include <string>

#include "stepcast/result/search.h"

namespace stepcast::report {

// What the search minimizes: its name, its unit, and how many of it the result's number makes.
struct Objective {
  const char* name;
  const char* unit;
  double scale;
};
Objective objective_of(const result::Search& search);
std::string objective_text(const result::Search& search, double value);  // "8.63 s", "552 GPU-s"

}  // namespace stepcast::report
