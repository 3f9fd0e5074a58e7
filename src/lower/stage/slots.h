// Passes of a chunk, unit by unit, with the features' hooks around each.
#pragma once

#include "stage_state.h"

namespace stepcast::lower {

// Run the pass of one slot; and the passes of two, side by side or, where the system does not
// overlap them, one after the other.
void run_slot(Stage& stage, const schedule::Slot& slot);
void run_pair(Stage& stage, const schedule::Slot& first, const schedule::Slot& second);

}  // namespace stepcast::lower
