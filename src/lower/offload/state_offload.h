// States that live outside the GPU (state_offload.cpp, host_step.cpp): what other features need to
// read or keep them.
#pragma once

#include <vector>

#include "../stage/feature.h"
#include "stepcast/lower/lower.h"

namespace stepcast::lower {

// Of the states that held_states() counts, what is not on the device. Whole gradients that add up
// from micro-batch to micro-batch stay there: the host holds the reduced ones.
StateBytes states_away(const Stage& stage);

// A movement of `bytes` beyond the GPU, behind what the stream and its waits hold; exposed, it
// counts as `category`. Nothing is issued for less than a byte. Returns the stream's end.
Mark carry(Stage& stage, program::StreamIndex stream, Carrier by, double bytes, const char* label,
           program::Category category = program::Category::offload);
// `stream` waits for the step before, which wrote what the stream will bring.
void await_last_step(Stage& stage, program::StreamIndex stream);

// This rank's shard of a wrap, from the host's memory to the device behind `order`; and those of
// the wraps that follow wrap `at` in the direction of the pass.
void fetch_wrap(Stage& stage, Wrap& w, const std::vector<Mark>& order);
void fetch_ahead(Stage& stage, std::size_t at, bool backward);

// The optimizer on the host: the number of buffers for pieces that are read, stepped and written;
// bytes of its states per parameter; and its pieces, elements of this rank's shard that move and
// are stepped together.
inline constexpr std::size_t kStepBuffers = 3;
double state_width(const strategy::Plan& plan);
std::vector<double> step_pieces(const Stage& stage);

}  // namespace stepcast::lower
