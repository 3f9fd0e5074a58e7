// The result of the model that a training loop holds.
#include "catch.hpp"
#include "lower/tensors/unit_tensors.h"
#include "traced.h"

namespace stepcast::lower::test {

namespace {

// One layer and two micro-batches: when results in fp32 are there, beside the passes.
std::string results(bool cleared) {
  strategy::Plan plan = small_plan({.layers = 1, .micro_batches = 2});
  run_eagerly(plan);
  plan.loss_form.wide_output = true;
  plan.loss_form.clears_output = cleared;
  return Traced(plan).of({"result in fp32", "compute: pass", "compute: optimizer"});
}

}  // namespace

TEST_CASE("A result in fp32 stands until the next one is there, and the last to the step's end",
          "[lower]") {
  CHECK(results(false) == R"(compute: pass
compute: pass
+ the model's result in fp32 65536000
compute: pass
compute: pass
compute: pass
compute: pass
compute: pass
compute: pass
+ the model's result in fp32 65536000
compute: pass
- the model's result in fp32
compute: pass
compute: pass
compute: pass
compute: optimizer
- the model's result in fp32
)");
}

TEST_CASE("A result in fp32 that the loop gives up goes with the backward pass of its loss",
          "[lower]") {
  CHECK(results(true) == R"(compute: pass
compute: pass
+ the model's result in fp32 65536000
compute: pass
compute: pass
- the model's result in fp32
compute: pass
compute: pass
compute: pass
compute: pass
+ the model's result in fp32 65536000
compute: pass
compute: pass
- the model's result in fp32
compute: pass
compute: pass
compute: optimizer
)");
}

// The loss's place in the pass comes behind the norm's and the product's.
TEST_CASE("The loop has given the last result up when the loss of the next one begins", "[lower]") {
  strategy::Plan plan = small_plan({.layers = 1, .micro_batches = 2});
  run_eagerly(plan);
  plan.loss_form.wide_output = true;
  const program::World world = lower_small(plan, {});
  const program::Program& p = world.programs.front();
  std::vector<std::uint16_t> ends;  // of results that go within a pass
  for (const program::Buffer& b : p.buffers) {
    if (p.labels[b.label] == "the model's result in fp32" && b.blocks == 1) {
      ends.push_back(p.blocks[b.first_block].end);
    }
  }
  CHECK(ends == std::vector<std::uint16_t>{first_place(2)});
}

}  // namespace stepcast::lower::test
