// Weights of 8-bit products that FSDP2 gathers in 8 bits: each rank casts its shard, so that no
// pass casts the whole (torchao 0.14.1, float8/fsdp_utils.py: fsdp_pre_all_gather).
#pragma once

#include "sharded_units.h"

namespace stepcast::lower {

// Bytes of an array as a gather brings it, and as the passes read it.
double gathered_width(const strategy::Plan& plan, const Array& array);

// Elements of a wrap that are gathered so, all of them dense.
std::int64_t narrow_elements(const Stage& stage, const Wrap& w);

// A wrap's shards are cast on the stream of its gather, behind their maxima where these are found
// for each gather.
void cast_shards(Stage& stage, const Wrap& w, program::StreamIndex stream);

// The maxima of all such weights behind the optimizer's step, and one all-reduce of them
// (precompute_float8_dynamic_scale_for_fsdp).
void find_scales(Stage& stage);

}  // namespace stepcast::lower
