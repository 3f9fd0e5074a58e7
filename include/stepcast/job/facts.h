// What the parts of a job need of each other.
#pragma once

#include <string>
#include <string_view>

#include "stepcast/job/job.h"

namespace stepcast::job {

// What the model would need for `module` of `memory.recompute.modules` to be a part of it, in words; nullptr: it has the
// module.
const char* lacking(const Model& model, const std::string& module);

// Dimensions of the widest head that the device's fused attention takes; 0: any. Frameworks run unfused attention in layers
// whose heads are wider.
int widest_fused_head(const Cluster& cluster);

// Whether some layers of the model have wider heads than that, by how many dimensions; 0: none.
int too_wide_head(const Model& model, const Cluster& cluster);

// Whether this overlap cuts products along the gathered sequence, so that it needs sequence parallelism.
bool cuts_along_sequence(TensorOverlap overlap);

// Whether low-rank adapters are trained on a frozen base.
bool trains_adapters(const Job& job);
// Whether tensor ranks cut each expert, where the job does not state by how many of them.
bool divides_experts(const Job& job);

// Whether the frozen base has 4 bits.
bool quantizes_base(const Finetune& finetune);

// How fine-tuning tells the model's layers apart.
Tuned tuned_layers(const Job& job);

// The format of parameters that are trained: memory.dtypes.parameters, or fp32 of adapters that PEFT lays beside a 16-bit
// base (0.21.2, tuners/tuners_utils.py:2762, cast_adapter_dtype).
DType trained_format(const Job& job);

// Whether a CUDA graph captures the whole step, or at least each layer's experts: the host then takes no part in them.
bool graphs_step(const Kernels& kernels);
bool graphs_experts(const Kernels& kernels);
// Whether one of Liger-Kernel's operators runs, by its option's name: kernels.liger lists it, and the model's family has it.
bool runs_liger(const Job& job, std::string_view option);

}  // namespace stepcast::job
