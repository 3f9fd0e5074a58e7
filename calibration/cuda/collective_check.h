// Known numbers through a collective: what each rank sends, and what must arrive. Whole numbers
// that fp32 adds exactly for up to 100,000 ranks.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace stepcast::harness::cuda {

float sent(int rank, std::size_t index);

// What `rank` must hold after `op` whose share of a rank is `count` elements (all of them, where an
// operation has no shares); empty: nothing is said (a reduction away from its root).
std::vector<float> expected(const std::string& op, int ranks, int rank, std::size_t count);

}  // namespace stepcast::harness::cuda
