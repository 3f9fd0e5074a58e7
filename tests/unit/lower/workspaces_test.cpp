// Scratch memory of libraries.
#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {

TEST_CASE("Workspaces of libraries stand", "[lower]") {
  strategy::Plan plan = small_plan();
  plan.accumulation.in_product = plan.accumulation.empty_gradients_stand = true;
  plan.device_memory.layer_workspace = true;
  const Traced traced(plan);
  CHECK(traced.of({"workspace", "scores", "empty"}) == R"(= GEMM workspace 100663296
= empty weight gradients 25165824
)");
}

// torchtune 0.6.1, modules/position_embeddings.py:82: a cosine and a sine in fp32 for each position
// and pair.
TEST_CASE("Rotation of pairs has one table of cosines and sines", "[lower]") {
  strategy::Plan plan = small_plan();
  plan.style.paired_rotary = true;
  plan.model.head_dim = 128;
  CHECK(Traced(plan).of({"rotary table"}) == "= rotary tables 262144\n");
}

// 512 positions of 64 complex numbers of 8 bytes.
TEST_CASE("Rotation in complex numbers has one table for all layers", "[lower]") {
  strategy::Plan plan = small_plan();
  plan.style.complex_rotary = true;
  plan.model.head_dim = 128;
  CHECK(Traced(plan).of({"rotary table"}) == "= rotary tables 262144\n");
  plan.device_memory.rotary_tables = true;  // two layers with one each
  CHECK(Traced(plan).of({"rotary table"}) == "= rotary tables 524288\n");
}

// A cosine and a sine of 512 positions and 64 pairs in 2 bytes, in each of two layers.
TEST_CASE("Layers may keep cosines and sines of rotary positions", "[lower]") {
  strategy::Plan plan = small_plan();
  plan.device_memory.rotary_caches = true;
  plan.model.head_dim = 128;
  CHECK(Traced(plan).of({"cosines"}) == "= cosines and sines 262144\n");
}

}  // namespace stepcast::lower::test
