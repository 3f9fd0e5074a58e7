// The formats in which parameters stand and travel. Weights of products that run in fewer than 16
// bits may stand in 8 or 4 (strategy::Precision::parameters); embeddings, norms, routers, biases
// and the weights of other products then stand in the activations' format: fp8_model_init makes
// Transformer Engine's own weights alone (megatron-core 0.19.2, fp8_utils.py:791).
#pragma once

#include "../passes/passes.h"

namespace stepcast::lower {

// Trained weights of products in fewer bits stand so.
bool stands_in_few_bits(const strategy::Plan& plan);

// Bytes of a trained element as it stands. `product`: of a weight whose products run in fewer bits
// (Array::cast).
double standing_width(const strategy::Plan& plan, bool product);
// The same of a frozen element, where no block of 4 bits is stated.
double frozen_width(const strategy::Plan& plan, bool product);
// Bytes of a trained element as ranks of a data-parallel group gather it: 8-bit weights as they
// stand, with a buffer of bytes beside that of the others (distributed/param_and_grad_buffer.py:
// param_dtype uint8); those in mxfp8 in the activations' format, since what is gathered is cast
// along rows and along columns behind it (:1153, the shared buffer is viewed as bfloat16; under
// Megatron-FSDP both copies of 8 bits travel,
// fsdp/src/megatron_fsdp/param_and_grad_buffer.py:2630).
double gathered_width(const strategy::Plan& plan, bool product);

// Bytes of dense or of expert elements as they stand, and as they are gathered.
double standing_bytes(const strategy::Plan& plan, const Elements& elements, bool expert);
double gathered_bytes(const strategy::Plan& plan, const Elements& elements, bool expert);

}  // namespace stepcast::lower
