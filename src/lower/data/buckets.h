// Gradients of whole arrays in buckets, as buckets.cpp fills them: what other features ask of them.
#pragma once

#include "../stage/feature.h"

namespace stepcast::lower {

// Gradients of this chunk are cut into several buckets.
bool bucketed(const Stage& stage, int chunk);
// Buckets leave while the backward pass goes on, or with its end; else at the step's end.
bool sends_as_it_goes(const strategy::Plan& plan);
// Gradients are copied into flat buckets that live from the first gradient to the last reduction,
// and are given up once they are there (DeepSpeed 0.19.8, runtime/zero/stage_1_and_2.py:3256,
// setup_buckets; :924).
bool fills_passing_buckets(const strategy::Plan& plan);
// Each step makes gradients of whole weights anew, by the operators that use the weights.
bool made_by_operators(const strategy::Plan& plan);
// Where autograd calls the hook of a gradient that the block is: behind the operator that made it.
std::uint16_t hook(const program::Block& gradient);
// Gradients go through buckets even where reductions do not run beside compute.
bool always_in_buckets(const strategy::Plan& plan);
// A unit's gradients as autograd makes them: a tensor for each array, of `wide` bytes an element.
TensorList gradients_of(const Passes& passes, double wide, program::LabelIndex label);
// Reduces the gradients that wait in a chunk's bucket.
void flush_gradients(Stage& stage, int chunk, program::StreamIndex stream);

}  // namespace stepcast::lower
