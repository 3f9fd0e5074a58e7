// Stages of ZeRO, context parallelism and hybrid sharding, which several systems state alike.
#pragma once

#include <string_view>

#include "draft.h"

namespace stepcast::interop::launch {

// Sharding by a stage of ZeRO, 0 to 3.
void zero_stage(Draft& draft, const Setting& setting, std::string_view key);
// Context parallelism of the Ulysses kind, which exchanges heads.
void ulysses(Draft& draft, const Setting& setting, std::string_view key);
// Hybrid sharding: the numbers of replicas and of shards, by the options that state each (nullptr:
// not stated; a value of -1: the remaining ranks).
void hybrid_sharding(Draft& draft, const Setting* replicas, const Setting* shards);
// Removes context parallelism of size 1.
void tidy_context(Draft& draft);

}  // namespace stepcast::interop::launch
