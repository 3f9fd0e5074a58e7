// Products over a grid of 2 x 2 or 2 x 2 x 2 tensor ranks.
#include "catch.hpp"
#include "small_unit.h"

using namespace stepcast;
using model::OpKind;
using model::TensorRole;
using test::SmallUnit;

namespace {

SmallUnit on_grid(TensorKind kind) {
  SmallUnit unit;
  unit.linear("fc", TensorRole::row, 16, 32);
  unit.plan.shard.tensor = 2;
  unit.plan.shard.sequence_parallel = true;
  unit.plan.tensor_parallel.kind = kind;
  return unit;
}

}  // namespace

TEST_CASE("2D broadcasts blocks one step ahead of the product and reduces gradients", "[lower]") {
  SmallUnit unit = on_grid(TensorKind::two_d);
  CHECK(unit.forward() ==
        "(fc x broadcast), (fc w broadcast), join tensor row, join tensor column, "
        "(fc x broadcast), (fc w broadcast), fc, join tensor row, join tensor column, fc");
  CHECK(unit.backward() ==
        "(fc dgrad w broadcast), join tensor column, (fc dgrad w broadcast), fc dgrad, "
        "(fc dgrad reduce), join tensor column, fc dgrad, (fc dgrad reduce), join tensor row, "
        "(fc wgrad x broadcast), join tensor row, (fc wgrad x broadcast), fc wgrad, "
        "(fc wgrad reduce), join tensor row, fc wgrad, (fc wgrad reduce), join tensor column");
}

TEST_CASE("2.5D sums weight gradients over the depth", "[lower]") {
  SmallUnit unit = on_grid(TensorKind::two_half_d);
  unit.plan.grid.tensor = 8;
  CHECK(unit.backward().ends_with("join tensor column, [fc wgrad all_reduce]"));
}

TEST_CASE("3D gathers along two sides and scatters along the third", "[lower]") {
  SmallUnit unit = on_grid(TensorKind::three_d);
  CHECK(unit.forward() == "[fc x all_gather], [fc w all_gather], fc, [fc y reduce_scatter]");
  CHECK(unit.backward() ==
        "[fc dy all_gather], [fc w all_gather], fc dgrad, [fc dx reduce_scatter], "
        "[fc x all_gather], fc wgrad, [fc dw reduce_scatter]");
}

TEST_CASE(
    "Rows of norms and losses are summed along the grid's rows, embedded ones along its "
    "columns",
    "[lower]") {
  SmallUnit unit;
  unit.add("words", OpKind::embedding).tensor = TensorRole::vocab_embedding;
  unit.add("norm", OpKind::norm);
  unit.add("loss", OpKind::cross_entropy);
  unit.plan.shard.tensor = 2;
  unit.plan.tensor_parallel.kind = TensorKind::two_d;
  CHECK(unit.forward() ==
        "words, [words reduce_scatter], norm, [norm all_reduce], [norm all_reduce], loss, "
        "[loss all_reduce], [loss all_reduce], [loss all_reduce]");
  CHECK(unit.backward() ==
        "loss backward, [norm all_reduce], [norm all_reduce], norm backward, "
        "[words grad all_gather], words backward");
}

TEST_CASE("A policy that keeps operators keeps the scattered result of a row product on a grid",
          "[lower]") {
  SmallUnit unit = on_grid(TensorKind::two_d);
  unit.redone.resize(1);
  unit.redone[0].kind = lower::Redo::Kind::kept;
  const std::int64_t result = 2 * 128 * 16;
  const std::int64_t input = result / 2;  // the input of the unit, which saves it as well
  CHECK(unit.build().input == input);
  CHECK(unit.bytes(unit.build().memory.saved, "kept to run again") == result + result / 2);
}

TEST_CASE("Each rank of a grid holds its share of every parameter", "[lower]") {
  CHECK(on_grid(TensorKind::two_d).build().parameters.trained.dense == 16 * 32 / 2);
  CHECK(on_grid(TensorKind::three_d).build().parameters.trained.dense == 16 * 32 / 4);
}
