// Batch sizes that follow from each other.
#pragma once

#include "draft.h"

namespace stepcast::interop::launch {

// Computes sizes of a batch that are not stated from those that are. `micro` is per rank; without
// `global`, the global batch is micro * accumulation * data-parallel ranks.
void complete_batch(Draft& draft, const Setting* micro, const Setting* accumulation,
                    const Setting* global);

}  // namespace stepcast::interop::launch
