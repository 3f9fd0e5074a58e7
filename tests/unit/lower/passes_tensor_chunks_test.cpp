// Products split into chunks that overlap the collectives of tensor parallelism.
#include "catch.hpp"
#include "small_unit.h"

using namespace stepcast;
using model::TensorRole;
using test::SmallUnit;

namespace {

SmallUnit mlp(TensorOverlap overlap) {
  SmallUnit unit;
  unit.linear("fc1", TensorRole::column, 32, 16);
  unit.linear("fc2", TensorRole::row, 16, 32);
  unit.plan.shard.tensor = 2;
  unit.plan.shard.sequence_parallel = true;
  unit.plan.tensor_parallel.product_overlap = overlap;
  return unit;
}

}  // namespace

TEST_CASE("User buffers gather round a ring beside a product and scatter its parts", "[lower]") {
  SmallUnit unit = mlp(TensorOverlap::ring);
  CHECK(unit.forward() ==
        "<fc1 rows>, fc1, join tensor, fc1, fc2, (fc2 reduce_scatter), fc2, (fc2 reduce_scatter), "
        "fc2, (fc2 reduce_scatter), fc2, (fc2 reduce_scatter), join tensor");
  // In the backward pass the row product gathers its output gradient in chunks; the input gradient
  // of a column product is reduced at once.
  CHECK(unit.backward() ==
        "<fc2 dgrad rows>, fc2 dgrad, join tensor, fc2 dgrad, fc2 wgrad, (fc1 input all_gather), "
        "fc1 dgrad, join tensor, (fc1 dgrad reduce_scatter), fc1 wgrad, join tensor");
}

TEST_CASE("Symmetric memory scatters round a ring in either pass and adds what came", "[lower]") {
  SmallUnit unit = mlp(TensorOverlap::async);
  CHECK(unit.forward() ==
        "<fc1 rows>, fc1, join tensor, fc1, fc2, <fc2 sums>, fc2, join tensor, fc2 sum");
  CHECK(unit.backward() ==
        "<fc2 dgrad rows>, fc2 dgrad, join tensor, fc2 dgrad, fc2 wgrad, (fc1 input all_gather), "
        "fc1 dgrad, <fc1 dgrad sums>, fc1 dgrad, join tensor, fc1 dgrad sum, fc1 wgrad");
}

TEST_CASE("A chunk has a rank's share of the rows", "[lower]") {
  SmallUnit whole = mlp(TensorOverlap::none);
  whole.graph.operators[0].gemm->m = 1 << 20;  // so many rows that only they count
  SmallUnit chunks = mlp(TensorOverlap::ring);
  chunks.graph.operators[0].gemm->m = 1 << 20;
  chunks.plan.host.cuda_graph = true;  // the events of each step take no time
  const auto first_kernel = [](const lower::Passes& passes) {
    for (const lower::Item& item : passes.forward) {
      if (item.kind == lower::Item::Kind::kernel) {
        return to_seconds(item.duration);
      }
    }
    return 0.0;
  };
  CHECK(first_kernel(chunks.build()) / first_kernel(whole.build()) == Approx(0.5).epsilon(0.1));
}
