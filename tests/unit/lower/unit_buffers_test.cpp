// Units that are gathered into a tensor each, and reduced from another one.
#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {

TEST_CASE("Units in buffers", "[lower]") {
  strategy::Plan plan = small_plan();
  share_units(plan);
  plan.parameter_gather.unit_buffers = true;
  const Traced traced(plan);
  CHECK(traced.of({"parameters", "gradients", "<- data", "pass"}) == "");
}

}  // namespace stepcast::lower::test
