// Finds the operators and the splits to which a user's rule applies.
#pragma once

#include <string>

#include "user_rules.h"

namespace stepcast::automatic {

// The module of an operator as rules name it, e.g. "attention".
std::string module_of(const model::Operator& op);
// True if the pattern is the operator's name, its module, or both with a dot between.
bool matches(const std::string& pattern, const model::Operator& op);
// A word of op-trans rules and the splits that it denotes.
struct SplitWord {
  std::string word;
  SplitSet splits;
};
// All words in the order in which messages list them: dimensions of nnScaler's annotations, then
// the names of the splits, then "dispatch" and "combine" for two splits each.
const std::vector<SplitWord>& split_words();
// A rule on a module applies to those of its operators that can be split as it says.
bool concerns(const UserRules::Cut& cut, const model::Operator& op);

}  // namespace stepcast::automatic
