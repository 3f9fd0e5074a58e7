// A mixer that passes a state along the sequence, over two context ranks.
#include "catch.hpp"
#include "small_unit.h"

using namespace stepcast;
using model::OpKind;
using test::SmallUnit;

namespace {

// Two tensors are traded for whole sequences, one back.
SmallUnit mixer(std::vector<std::int64_t> before) {
  SmallUnit unit;
  unit.add("conv", OpKind::elementwise).traded_before = std::move(before);
  unit.add("scan", OpKind::elementwise).traded_after = {512};
  unit.graph.kind.mixer = model::LayerKind::Mixer::mamba;
  unit.plan.shard.context = 2;
  unit.plan.grid.context = 2;
  return unit;
}

}  // namespace

TEST_CASE("Parts of sequences are traded for heads ahead of a mixer, and back behind it",
          "[lower]") {
  SmallUnit unit = mixer({1024, 256});
  CHECK(
      unit.forward() ==
      "conv heads by rank, [conv all_to_all], conv heads by rank, [conv all_to_all], conv joined, "
      "conv sequence in order, conv, scan, scan heads by rank, [scan all_to_all], "
      "scan sequence by rank");
}

TEST_CASE("Gradients are traded the other way, in the opposite order", "[lower]") {
  CHECK(mixer({1024}).backward() ==
        "scan heads by rank, [scan grad all_to_all], scan sequence by rank, scan backward, "
        "conv backward, conv heads by rank, [conv grad all_to_all], conv joined, "
        "conv sequence in order");
}

TEST_CASE("Sequences that are cut in order stay in order", "[lower]") {
  SmallUnit unit = mixer({1024});
  unit.plan.context_exchange.balanced = false;
  CHECK(unit.forward() ==
        "conv heads by rank, [conv all_to_all], conv joined, conv, scan, scan heads by rank, "
        "[scan all_to_all]");
}

TEST_CASE("One rank trades nothing, and neither does attention", "[lower]") {
  SmallUnit alone = mixer({1024});
  alone.plan.grid.context = 1;
  CHECK(alone.forward() == "conv, scan");
  SmallUnit attention = mixer({1024});
  attention.graph.kind.mixer = model::LayerKind::Mixer::attention;
  CHECK(attention.forward() == "conv, scan");
}
