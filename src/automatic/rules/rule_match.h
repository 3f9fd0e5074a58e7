// Which operators and which splits a user's rule speaks of.
#pragma once

#include <string>

#include "user_rules.h"

namespace stepcast::automatic {

// "attention"; as rules name modules.
std::string module_of(const model::Operator& op);
// By its own name, its module's, or both with a dot between.
bool matches(const std::string& pattern, const model::Operator& op);
// A word of op-trans rules and the splits that it stands for.
struct SplitWord {
  std::string word;
  SplitSet splits;
};
// All words, in the order in which messages list them: dimensions of nnScaler's annotations, then
// the splits' own names, then "dispatch" and "combine" for both of theirs.
const std::vector<SplitWord>& split_words();
// Of a module, a rule is for those operators that can be cut so.
bool concerns(const UserRules::Cut& cut, const model::Operator& op);

}  // namespace stepcast::automatic
