// Offload of saved activations to the host and back.
#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {
namespace {

// Layers keep their inputs, and the output layer keeps the input of its loss; all of that is
// offloaded.
strategy::Plan offloading(OffloadTarget to) {
  strategy::Plan plan = small_plan();
  run_eagerly(plan);
  plan.style.fused_norm = false;
  plan.style.loss = plan.loss_form.kernel = LossKernel::fused;
  plan.recompute.kind = RecomputeKind::full;
  plan.offload.activations.to = to;
  plan.offload.prefetch = 0;
  return plan;
}

}  // namespace

TEST_CASE("Saved activations leave behind their unit and come back ahead of its backward pass",
          "[lower]") {
  const Traced traced(offloading(OffloadTarget::cpu));
  CHECK(traced.of({"offload", "fetched", "activations out", "activations back"}) ==
        R"(+ offloaded activations 4096
activations out: activations to the host 4096 <- compute
compute: pass <- activations out
+ offloaded activations 1048576
activations out: activations to the host 1048576 <- compute
compute: pass <- activations out
+ offloaded activations 1048576
activations out: activations to the host 1048576 <- compute
compute: pass <- activations out
+ offloaded activations 34865152
activations out: activations to the host 34865152 <- compute
+ fetched activations 34865152
activations back: activations from the host 34865152 <- activations out, compute
- offloaded activations
compute: pass <- activations out, activations back
- fetched activations
+ fetched activations 1048576
activations back: activations from the host 1048576 <- activations out, compute
- offloaded activations
compute: attention_norm <- activations back
- fetched activations
+ fetched activations 1048576
activations back: activations from the host 1048576 <- activations out, compute
- offloaded activations
compute: attention_norm <- activations back
- fetched activations
+ fetched activations 4096
activations back: activations from the host 4096 <- activations out, compute
- offloaded activations
compute: pass <- activations back
- fetched activations
)");
}

TEST_CASE("On their way to drives they pass through buffers of the host", "[lower]") {
  const Traced traced(offloading(OffloadTarget::nvme));
  CHECK(traced.of({"NVMe"}) == R"(NVMe write: activations to NVMe 4096 <- activations out
NVMe write: activations to NVMe 1048576 <- activations out
activations out: activations to the host 1048576 <- NVMe write, compute
NVMe write: activations to NVMe 1048576 <- activations out
activations out: activations to the host 34865152 <- NVMe write, compute
NVMe write: activations to NVMe 34865152 <- activations out
NVMe read: activations from NVMe 34865152 <- compute, NVMe write
activations back: activations from the host 34865152 <- NVMe read, compute
NVMe read: activations from NVMe 1048576 <- compute, NVMe write
activations back: activations from the host 1048576 <- NVMe read, compute
NVMe read: activations from NVMe 1048576 <- activations back, compute, NVMe write
activations back: activations from the host 1048576 <- NVMe read, compute
NVMe read: activations from NVMe 4096 <- activations back, compute, NVMe write
activations back: activations from the host 4096 <- NVMe read, compute
)");
}

}  // namespace stepcast::lower::test
