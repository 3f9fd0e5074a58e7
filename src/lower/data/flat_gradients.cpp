#include "flat_gradients.h"

#include <algorithm>

#include "../state/states.h"
#include "../tensors/unit_tensors.h"
#include "data_parallel.h"

namespace stepcast::lower {

using program::MemoryCategory;

// BF16_Optimizer hands out its flat fp32 gradients, one tensor for each group of parameters, of
// which the matrices' has nearly all (DeepSpeed 0.6.3 and 0.12.6, runtime/bf16_optimizer.py:
// get_grads_for_reduction; 0.14.4, non_expert_gradients). A tensor larger than a bucket is reduced
// by itself, as a whole cast into the format that travels; smaller ones are first copied into one
// (0.6.3, runtime/engine.py:2059, allreduce_bucket; :2091, allreduce_no_retain).
std::vector<program::BufferIndex> cast_flat_gradients(Stage& stage) {
  std::vector<program::BufferIndex> made;
  if (!stage.plan.gradient_sync.casts_flat_gradients) {
    return made;
  }
  const std::int64_t elements = stage.parameters.trained.total();
  const double wide = width(stage.plan.precision.gradients);
  const double travelling = width(stage.plan.precision.reduce);
  const auto make = [&](double bytes, const char* label) {
    made.push_back(stage.builder.allocate(whole_blocks(static_cast<double>(elements) * bytes),
                                          MemoryCategory::communication, label_of(stage, label)));
  };
  if (elements <= stage.plan.gradient_sync.bucket_elements) {
    make(wide, "flat copy of a bucket");
  }
  if (travelling != wide) {
    make(travelling, "gradients as they travel");
  }
  return made;
}

// BF16_Optimizer adds a micro-batch's gradients to the fp32 ones in copies of that format, array by
// array (update_hp_grads: lp.grad.data.to(hp_grad.dtype)); the largest stands for all.
void widen_pass_gradients(Stage& stage) {
  if (!stage.plan.state_layout.pass_gradients_stand) {
    return;
  }
  std::int64_t largest = 0;
  for (const Array& array : stage_arrays(stage)) {
    largest = std::max(largest, array.elements);
  }
  stage.builder.release(stage.builder.allocate(
      whole_blocks(static_cast<double>(largest) * width(stage.plan.precision.gradients)),
      MemoryCategory::gradients, label_of(stage, "fp32 copy of a gradient")));
}

}  // namespace stepcast::lower
