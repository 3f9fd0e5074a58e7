#include "cuda/bench.h"

namespace stepcast::harness::cuda {

GpuTarget target_of(const Context& context) {
  const std::string name = context.properties.gcnArchName;  // "gfx942:sramecc+:xnack-"
  return GpuTarget(name.substr(0, name.find(':')));
}

}  // namespace stepcast::harness::cuda
