// Fields of a strategy search that the terminal and the page share.
#pragma once

#include <string>

#include "stepcast/result/search.h"

namespace stepcast::report {

// The objective of a search: its name, its unit, and the factor from the result's number to that
// unit.
struct Objective {
  const char* name;
  const char* unit;
  double scale;
};
Objective objective_of(const result::Search& search);
// "tp" for "parallelism.tensor"; of another key its last part.
std::string brief_key(const std::string& key);

std::string objective_text(const result::Search& search, double value);  // "8.63 s", "552 GPU-s"

// What is proven of the strategy found: one statement.
std::string proof_words(const result::Search& search);

}  // namespace stepcast::report
