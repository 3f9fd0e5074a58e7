// Model states that are kept from step to step.
#include "catch.hpp"
#include "lower/state/optimizer_states.h"
#include "traced.h"

namespace stepcast::lower::test {

TEST_CASE("States stand by kind: bytes are those of ZeRO-1 over eight ranks", "[lower]") {
  strategy::Plan plan = small_plan();
  share(plan, strategy::DataComm::shard_states);
  plan.accumulation.in_product = plan.accumulation.empty_gradients_stand = true;
  plan.device_memory.layer_workspace = true;
  const Traced traced(plan);
  CHECK(traced.of({"= "}) == R"(= parameters 182472704
= gradients 364945408
= master weights 45618176
= optimizer states 91236352
= GEMM workspace 100663296
= empty weight gradients 25165824
)");
}

TEST_CASE("A flat partition is one tensor, also of a rank that is alone", "[lower]") {
  strategy::Plan plan = small_plan();
  plan.precision.master = DType::fp32;
  plan.precision.moments = DType::fp32;
  const std::vector<Array> arrays = {{.elements = 100, .rows = 10, .columns = 10},
                                     {.elements = 20}};
  const StateTensors apart = state_tensors(plan, {}, arrays);
  CHECK(apart.master == std::vector<std::int64_t>{400, 80});
  CHECK(apart.moments == std::vector<std::int64_t>{400, 400, 80, 80});
  plan.state_layout.partition = StatePartition::flat;
  const StateTensors flat = state_tensors(plan, {}, arrays);
  CHECK(flat.master == std::vector<std::int64_t>{480});
  CHECK(flat.moments == std::vector<std::int64_t>{480, 480});
}

TEST_CASE("The first rank of a distributed optimizer owns the last arrays of each chunk",
          "[lower]") {
  strategy::Plan plan = small_plan();
  plan.precision.master = DType::fp32;
  plan.precision.gradients = DType::bf16;
  plan.state_layout.partition = StatePartition::buffer_range;
  std::vector<Array> arrays = {{.elements = 600}, {.elements = 100}, {.elements = 300}};
  Shares shares{strategy::DataComm::shard_states, 2, 1};
  // Half of 1000 elements: 300 of the last array, 100, and 100 of the first.
  const StateTensors whole = state_tensors(plan, shares, arrays);
  CHECK(whole.master == std::vector<std::int64_t>{1200, 400, 400});
  CHECK(whole.wide_gradients == whole.master);
  // Buckets of at least 400 elements: 300 + 100, then 600. Half of each.
  shares.bucket = 400;
  shares.chunks_in_buckets = 1;
  CHECK(state_tensors(plan, shares, arrays).master == std::vector<std::int64_t>{800, 1200});
  // A chunk has a buffer of its own.
  arrays[2].chunk = 1;
  shares.chunks_in_buckets = 0;
  CHECK(state_tensors(plan, shares, arrays).master == std::vector<std::int64_t>{400, 1000, 600});
}

TEST_CASE("A share of the optimizer on the host is that of whole arrays, in order", "[lower]") {
  strategy::Plan plan = small_plan();
  plan.offload.optimizer = {OffloadTarget::cpu, 0.3};
  const std::vector<Array> arrays = {{.elements = 50},
                                     {.elements = 600, .rows = 20, .columns = 30},
                                     {.elements = 350, .rows = 10, .columns = 35}};
  CHECK(share_on_host(plan, {}, arrays) == 0.3);
  plan.offload.whole_arrays = true;
  CHECK(share_on_host(plan, {}, arrays) == 0.6);
  plan.offload.optimizer.ratio = 0.7;
  CHECK(share_on_host(plan, {}, arrays) == 0.95);
  plan.offload.optimizer.ratio = 0.96;  // a vector goes last
  CHECK(share_on_host(plan, {}, arrays) == 1);
  // The first rank of two owns 350 elements and 150 of the matrix before them.
  plan.state_layout.partition = StatePartition::buffer_range;
  plan.offload.optimizer.ratio = 0.3;
  CHECK(share_on_host(plan, {strategy::DataComm::shard_states, 2, 1}, arrays) == 0.7);
}

TEST_CASE("Experts that run one by one leave for the host one by one", "[lower]") {
  strategy::Plan plan = small_plan();
  plan.offload.optimizer = {OffloadTarget::cpu, 0.6};
  plan.offload.whole_arrays = true;
  std::vector<Array> arrays;
  for (const std::size_t op : {1, 2}) {
    const Array one = {.elements = op == 1 ? 200 : 50,
                       .expert = true,
                       .rows = op == 1 ? 20 : 5,
                       .columns = 10,
                       .op = op};
    arrays.insert(arrays.end(), 4, one);
  }
  CHECK(share_on_host(plan, {}, arrays) == 0.6);  // three of the first product
  plan.expert_dispatch.grouped = false;
  CHECK(share_on_host(plan, {}, arrays) == 0.7);  // two experts, and a product of the third
}

}  // namespace stepcast::lower::test
