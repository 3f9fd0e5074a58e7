#include "stepcast/base/diagnostics.h"

#include "catch.hpp"

using namespace stepcast;

TEST_CASE("A fault prints its place, or the option that it came from") {
  CHECK(to_string(Fault{{"job.yaml", 3, 7}, "unknown key"}) == "job.yaml:3:7: error: unknown key");
  CHECK(to_string(Fault{{"--set a=b", 0, 0}, "unknown key"}) == "--set a=b: error: unknown key");
}

TEST_CASE("Faults stand in file order, files in the order of their first fault") {
  const InputError e({{{"b.yaml", 9, 1}, "x"},
                      {{"a.yaml", 1, 1}, "y"},
                      {{"b.yaml", 2, 5}, "z"},
                      {{"b.yaml", 2, 3}, "w"}});
  std::string order;
  for (const Fault& fault : e.faults()) {
    order += fault.message;
  }
  CHECK(order == "wzxy");
  CHECK(std::string(e.what()) ==
        "b.yaml:2:3: error: w\nb.yaml:2:5: error: z\nb.yaml:9:1: error: x\na.yaml:1:1: error: y");
}

TEST_CASE("An input error without a fault is our own bug") {
  CHECK_THROWS_AS(InputError(std::vector<Fault>{}), std::logic_error);
}

TEST_CASE("The nearest name is suggested, a far one is not") {
  const std::vector<std::string> keys = {"tensor", "pipeline", "context", "virtual_pipeline"};
  CHECK(nearest("tenser", keys) == "tensor");
  CHECK(nearest("tesnor", keys) == "tensor");
  CHECK(nearest("Pipeline", keys) == "pipeline");
  CHECK(nearest("virtual-pipeline", keys) == "virtual_pipeline");
  CHECK(nearest("tensor_parallel", keys) == "tensor");
  CHECK(nearest("virtual", keys) == "virtual_pipeline");
  CHECK(nearest("megatron", {"megatron-bridge", "megatron-lm"}) == "megatron-lm");
  CHECK(nearest("node_count", {"node"}).empty());
  CHECK(nearest("contxt", keys) == "context");
  CHECK(nearest("banana", keys).empty());
  CHECK(nearest("", keys).empty());
  CHECK(nearest("x", {}).empty());
  CHECK(nearest("x", {"y"}).empty());
  CHECK(nearest(std::string(1'000'000, 'a'), keys).empty());
}

TEST_CASE("A broken invariant says what was broken and where") {
  const auto broken = [] { STEPCAST_CHECK(1 + 1 == 3, "arithmetic"); };
  CHECK_THROWS_WITH(broken(), ContainsSubstring("internal error: arithmetic (1 + 1 == 3"));
  CHECK_NOTHROW([] { STEPCAST_CHECK(true, "fine"); }());
}
