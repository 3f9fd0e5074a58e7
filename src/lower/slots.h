// Passes of a chunk, unit by unit, with the features' hooks around each.
#pragma once

#include "stage_state.h"

namespace stepcast::lower {

// The pass of one slot; and two passes side by side, or one after the other where the system does
// not overlap them.
void run_slot(Stage& stage, const schedule::Slot& slot);
void run_pair(Stage& stage, const schedule::Slot& first, const schedule::Slot& second);

}  // namespace stepcast::lower
