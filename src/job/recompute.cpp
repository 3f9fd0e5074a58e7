#include "stepcast/job/recompute.h"

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

}  // namespace stepcast::job
