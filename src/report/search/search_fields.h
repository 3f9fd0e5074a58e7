// Fields of a strategy search that the terminal and the page share.
#pragma once

#include <string>
#include <vector>

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

// The strategies that are worth showing: the ranking, and the search's own front.
std::vector<const result::Strategy*> shown_strategies(const result::Search& search);
// Those that no other beats in memory and objective both, by memory: a search that was stopped may
// not have all of them in its own front.
std::vector<const result::Strategy*> front_of_shown(const result::Search& search);

// What is proven of the strategy found: one statement.
std::string proof_words(const result::Search& search);

}  // namespace stepcast::report
