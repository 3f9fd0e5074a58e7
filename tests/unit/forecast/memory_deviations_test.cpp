#include "catch.hpp"
#include "forecast/memory.h"

using namespace stepcast;

namespace {

cost::MemoryStructure only(cost::MemoryPart part, double deviation) {
  cost::MemoryStructure out;
  out.deviation[static_cast<std::size_t>(part)] = deviation;
  return out;
}

result::StageMemory stage(std::int64_t beside) {
  result::StageMemory out;
  out.parameters = Bytes(400);
  out.activations = Bytes(600);
  out.allocated = Bytes(1000);
  out.reserved = Bytes(1000 + beside);
  out.process = Bytes(1500 + beside);
  return out;
}

}  // namespace

TEST_CASE("Which free blocks are found is unknown however little is reserved beside live tensors") {
  for (const std::int64_t beside : {0, 10, 500}) {
    result::StageMemory m = stage(beside);
    forecast::set_deviations(only(cost::MemoryPart::blocks, 0.02), {}, m);
    CHECK(m.allocated_deviation == 0);
    CHECK(m.reserved_deviation == Approx(20.0 / static_cast<double>(1000 + beside)));
    CHECK(m.process_deviation == Approx(20.0 / static_cast<double>(1500 + beside)));
  }
}

TEST_CASE("Fragmentation is known by its own amount") {
  result::StageMemory m = stage(100);
  forecast::set_deviations(only(cost::MemoryPart::fragmentation, 0.5), {}, m);
  CHECK(m.allocated_deviation == 0);
  CHECK(m.reserved_deviation == Approx(50.0 / 1100));
}
