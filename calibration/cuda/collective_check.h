// Known numbers for checking a collective: what each rank sends and what must arrive. They are
// integers that fp32 adds exactly for up to 100,000 ranks.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace stepcast::harness::cuda {

float sent(int rank, std::size_t index);

// The values that `rank` must hold after `op` if the share of a rank has `count` elements (the
// whole buffer if the operation has no shares). Empty: the content is undefined (a reduction on
// ranks other than the root).
std::vector<float> expected(const std::string& op, int ranks, int rank, std::size_t count);

}  // namespace stepcast::harness::cuda
