// Kernels that were timed alone on a device: which operations of the cost model they are, and the times that the model
// predicts.
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
// The operator that a record names "copy", "norm", "add"...; nullopt: not modelled.
std::optional<cost::MemoryOp> memory_op_named(const std::string& op);
// The direction that a record names "h2d", "d2h", "both" or "d2d".
std::optional<cost::CopyDirection> direction_named(const std::string& name);

// The kernels of one transformer layer, from the operator graph of forecasts
// (model::build_layer): calibrate-gpu runs them, and a prediction adds up their times.
//
// A rank of Megatron-LM with all fusions and cuDNN's attention, without its collectives:
//   products   forward; for the backward pass the input and the weight gradient of each, the latter
//              written in the activations' type and not accumulated; experts as
//              grouped products. 8-bit types concern only the products: activations stay bf16, and
//              so does the router's product.
//   attention  one forward, one backward.
//   the rest   a kernel of the same kind that moves the bytes of the graph, in as many launches.
struct LayerKernel {
  std::variant<interop::GemmCase, interop::AttentionCase, interop::MemoryCase> what;
  int launches = 1;
};

// In order of execution. The layer is the model's last, which in a mixture of experts has experts (all of them on this
// rank).
std::variant<std::vector<LayerKernel>, Infeasible> layer_kernels(const job::Model& model, const interop::LayerCase& what);

// Predicted time of a timed case: one price, or one for each launch of a layer. Empty, with the reason in `why`, for a case
// that is not a kernel alone on the device (launches, collectives, overlaps) or is not modelled. GEMMs are bursts unless
// sustained. `engine`: the case is of an inference engine's table, where products include the casts of their operands and
// attention's forward pass includes writing a paged cache. Throws InputError for a layer of a model that is not in
// configs/models.
std::vector<cost::Priced> prices(const cost::Kernels& kernels, const job::Device& device, const interop::GpuCase& what,
                                 bool engine, std::string& why);

}  // namespace stepcast::measured
