// The logits that a training loop holds, and the metrics that it computes of them.
#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {

namespace {

// One layer and two micro-batches.
std::string held(bool metrics) {
  strategy::Plan plan = small_plan({.layers = 1, .micro_batches = 2});
  run_eagerly(plan);
  plan.loss_form.holds_logits = true;
  plan.style.loss_metrics = metrics ? 2 : 0;
  return Traced(plan).of({"logits of the last", "compute: pass", "compute: optimizer"});
}

// The trace of a micro-batch whose backward pass, with what follows it, has so many parts.
std::string micro_batch(int backward) {
  std::string out = "compute: pass\ncompute: pass\ncompute: pass\n";
  out += "- logits of the last micro-batch\n+ logits of the last micro-batch 32768000\n";
  for (int n = 0; n < backward; ++n) {
    out += "compute: pass\n";
  }
  return out;
}

}  // namespace

TEST_CASE("Logits stand from a loss's backward pass to the next logits, from step to step",
          "[lower]") {
  CHECK(held(false) == micro_batch(3) + micro_batch(3) + "compute: optimizer\n");
}

TEST_CASE("Metrics come behind each backward pass", "[lower]") {
  CHECK(held(true) == micro_batch(4) + micro_batch(4) + "compute: optimizer\n");
}

}  // namespace stepcast::lower::test
