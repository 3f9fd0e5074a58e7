// Buckets of Megatron-FSDP, whose shards end between rows of every parameter.
#pragma once

#include <cstdint>
#include <vector>

#include "../passes/passes.h"

namespace stepcast::lower {

// Elements of the bucket that holds a unit's dense parameters, or those of its experts, over
// `ranks` ranks: a shard is a multiple of a chunk, of which the rows of each matrix are a part;
// what is left of a parameter's last chunk goes to the remnant of one other, or to vectors that are
// small enough.
std::int64_t row_bucket(const std::vector<Array>& arrays, bool expert, std::int64_t ranks);

}  // namespace stepcast::lower
