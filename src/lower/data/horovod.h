// Horovod's background thread: tensors that are ready leave at its next tick, through the fusion
// buffer (horovod.cpp).
#pragma once

#include "../stage/feature.h"

namespace stepcast::lower {

// Gradients that are sent on `stream` wait for a tick.
bool leaves_at_ticks(const Stage& stage, program::StreamIndex stream);
// Around their reduction: the tick and the copy of `copied` bytes into the fusion buffer, and the
// copy out of it.
void wait_for_tick(Stage& stage, program::StreamIndex stream, double copied);
void leave_fusion_buffer(Stage& stage, program::StreamIndex stream, double copied);

}  // namespace stepcast::lower
