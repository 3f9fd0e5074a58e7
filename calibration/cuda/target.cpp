#include "bench.h"

namespace stepcast::harness::cuda {

GpuTarget target_of(const Context& context) {
  return context.properties.major + context.properties.minor / 10.0;
}

}  // namespace stepcast::harness::cuda
