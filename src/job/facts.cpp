#include "stepcast/job/facts.h"

namespace stepcast::job {

const char* lacking(const Model& model, const std::string& module) {
  if (module == "mla_up_proj" && !model.mla) {
    return "multi-head latent attention";
  }
  if ((module == "moe" || module == "moe_act") && !model.moe) {
    return "experts";
  }
  if (module == "shared_experts" && (!model.moe || model.moe->shared_experts == 0)) {
    return "shared experts";
  }
  return nullptr;
}

// FlashAttention-1 needs Turing, -2 and cuDNN's fused attention Ampere, -3 Hopper (their READMEs).
double least_compute_capability(AttentionKernel kernel) {
  switch (kernel) {
    case AttentionKernel::unfused:
      return 0;
    case AttentionKernel::flash1:
      return 7.5;
    case AttentionKernel::flash3:
      return 9.0;
    default:
      return 8.0;
  }
}

bool cuts_along_sequence(TensorOverlap overlap) {
  return overlap == TensorOverlap::ring || overlap == TensorOverlap::async;
}

}  // namespace stepcast::job
