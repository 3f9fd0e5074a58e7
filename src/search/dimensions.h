// Which dimensions of a space a bound distinguishes; all others make families.
#pragma once

#include <string>
#include <vector>

#include "stepcast/search/search.h"

namespace stepcast::search {

// Keys that a bound distinguishes.
const std::vector<std::string>& inner_keys();
bool is_inner(const Dimension& d);
// nullptr: the space does not vary that key, or it makes families.
const Dimension* find_inner(const Space& space, const std::string& key);

// Values of the inner dimensions with which a family's job can be loaded: first with one rank per
// model replica, then with pipeline stages. The candidates then replace these values by their own.
std::vector<std::vector<std::string>> probes(const Space& space);

// Whether two jobs differ outside a key.
bool differ_beside(const job::Job& a, const job::Job& b, const std::string& key);

// Of the inner keys, those that other keys' defaults follow in any training system
// (tests/agree/search_test.cpp holds all systems to that).
const std::vector<std::string>& leading_keys();

// The space with Dimension::followed set. A bound takes a candidate for its family's job with other
// sizes, but what a job leaves open may follow them: with stages torchtitan keeps parameters whole,
// without sharded units FSDP1 is DDP, whose gradients travel as they are added up.
Space followed_space(const Space& space, const JobLoader& loader);

}  // namespace stepcast::search
