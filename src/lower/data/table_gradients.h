// The gradient of a table that both ends of a chunk read: that of the output projection waits in
// autograd's buffer for the embedding's, the two are summed, and the weight's hooks run behind it
// (torch 2.15, csrc/autograd/input_buffer.cpp: accumulate). They are summed in place where the
// projection's is a tensor that nothing else refers to, as a cast is, or what a head and its loss
// in one function make; a product's result is seen turned over, and the sum is a tensor of its own.
#pragma once

#include "../stage/stage_state.h"

namespace stepcast::lower {

// Takes the table's gradient out of the projection's weight gradients. Nothing where none is made.
TableGradients part_table_gradients(const strategy::Plan& plan, Passes& projection,
                                    Passes& embedding);
// What is made of the projection's table stays as the step's gradient; else, of the two that are
// summed in place, the embedding's stands for the sum.
bool keeps_projection(const Stage& stage, int chunk);

}  // namespace stepcast::lower
