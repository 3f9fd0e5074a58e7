// The kernels of one transformer layer, from the operator graph that forecasts price
// (model::build_layer): what is measured here is what is predicted there, operator by operator.
//
// A rank of Megatron with every fusion on and cuDNN's attention, without its collectives:
//   products   forward; for the backward pass the input and the weight gradient of each, the latter
//              written in the activations' type and not added to an accumulated one; experts as
//              grouped products. 8-bit types are of the products alone: activations stay bf16, and
//              so does the router's product.
//   attention  one forward, one backward.
//   the rest   a kernel of its kind that moves the bytes the graph states, in as many launches.
// Each reads buffers of its own: nothing is found in L2 that the operator before left there. A
// layer's tensors are larger than L2 at the sizes that are measured.
#pragma once

#include <variant>
#include <vector>

#include "stepcast/interop/gpu_measurements.h"
#include "stepcast/job/job.h"

namespace stepcast::harness::cuda {

struct LayerKernel {
  std::variant<interop::GemmCase, interop::AttentionCase, interop::MemoryCase> what;
  int launches = 1;
};

// In order of execution. The layer is the model's last: of a mixture of experts, one with experts
// (all of them on this rank). Throws Unsupported.
std::vector<LayerKernel> layer_kernels(const job::Model& model, const interop::LayerCase& what);

}  // namespace stepcast::harness::cuda
