// Which operators and which splits a user's rule speaks of.
#pragma once

#include <string>

#include "user_rules.h"

namespace stepcast::automatic {

// "attention"; as rules name modules.
std::string module_of(const model::Operator& op);
// By its own name, its module's, or both with a dot between.
bool matches(const std::string& pattern, const model::Operator& op);
// By a dimension of nnScaler's annotations, or by a cut's own name.
bool is_split(const std::string& name, Split s);
// Of a module, a rule is for those operators that can be cut so.
bool concerns(const UserRules::Cut& cut, const model::Operator& op);

}  // namespace stepcast::automatic
