// Kernels that someone timed alone on a device: what they are to the cost model, and what it says
// of them.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/cost/kernels.h"
#include "stepcast/interop/gpu_measurements.h"
#include "stepcast/job/job.h"
#include "stepcast/model/operators.h"

namespace stepcast::measured {

model::Gemm shape_of(const interop::GemmCase& c);
model::AttentionShape shape_of(const interop::AttentionCase& c);
// "copy", "norm", "add"...; nullopt: not modelled.
std::optional<cost::MemoryOp> memory_op_named(const std::string& op);
// "h2d", "d2h", "both", "d2d".
std::optional<cost::CopyDirection> direction_named(const std::string& name);

// The kernels of one transformer layer, from the operator graph that forecasts price
// (model::build_layer): calibrate-gpu runs them, and a prediction adds them up.
//
// A rank of Megatron with every fusion on and cuDNN's attention, without its collectives:
//   products   forward; for the backward pass the input and the weight gradient of each, the latter
//              written in the activations' type and not added to an accumulated one; experts as
//              grouped products. 8-bit types are of the products alone: activations stay bf16, and
//              so does the router's product.
//   attention  one forward, one backward.
//   the rest   a kernel of its kind that moves the bytes the graph states, in as many launches.
struct LayerKernel {
  std::variant<interop::GemmCase, interop::AttentionCase, interop::MemoryCase> what;
  int launches = 1;
};

// In order of execution. The layer is the model's last: of a mixture of experts, one with experts
// (all of them on this rank).
std::variant<std::vector<LayerKernel>, Infeasible> layer_kernels(const job::Model& model, const interop::LayerCase& what);

// What `kernels` says of a timed case: one price, or one for each launch of a layer. Empty with the
// reason in `why`: no kernel alone on the device (launches, collectives, overlaps), or not
// modelled. GEMMs are bursts unless sustained. `engine`: as tables of inference engines have it,
// products with the casts of their operands, attention's forward pass with what writing a paged
// cache took; else the kernel alone. Throws InputError: a layer of a model that configs lack.
std::vector<cost::Priced> prices(const cost::Kernels& kernels, const job::Device& device, const interop::GpuCase& what,
                                 bool engine, std::string& why);

}  // namespace stepcast::measured
