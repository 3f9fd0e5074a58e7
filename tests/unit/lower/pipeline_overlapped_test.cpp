// Messages of interleaved stages that overlap compute.
#include <algorithm>

#include "catch.hpp"
#include "muted.h"
#include "traced.h"

namespace stepcast::lower::test {
namespace {

// Two stages with two chunks each, whose messages travel beside compute.
strategy::Plan overlapped() {
  strategy::Plan plan = small_plan({.layers = 4,
                                    .pipeline = 2,
                                    .chunks = 2,
                                    .micro_batches = 4,
                                    .schedule = "interleaved_1f1b"});
  plan.stage_transport.holds_compute = plan.stage_transport.overlaps = true;
  return plan;
}

}  // namespace

TEST_CASE("Messages run beside compute, each direction on its stream", "[lower]") {
  const Traced traced(overlapped(), 1);
  CHECK(traced.of({"send ", "receive "}) ==
        R"(receive forward: receive forward <- compute of the step before
compute: pass <- receive forward
send forward: send forward <- compute
receive forward: receive forward <- compute
compute: pass <- receive forward
send forward: send forward <- compute
receive forward: receive forward <- compute
compute: pass <- receive forward
receive forward: receive forward <- compute
send backward: send backward <- compute
compute: pass <- receive forward
receive forward: receive forward <- compute
send backward: send backward <- compute
receive backward: receive backward <- compute
compute: pass <- receive forward
send forward: send forward <- compute
receive forward: receive forward <- compute
compute: pass <- receive backward
send backward: send backward <- compute
receive backward: receive backward <- compute
compute: pass <- receive forward
send forward: send forward <- compute
receive forward: receive forward <- compute
compute: pass <- receive backward
send backward: send backward <- compute
compute: pass <- receive forward
receive forward: receive forward <- compute
send backward: send backward <- compute
compute: pass <- receive forward
send backward: send backward <- compute
receive backward: receive backward <- compute
compute: pass <- receive backward
send backward: send backward <- compute
receive backward: receive backward <- compute
compute: pass <- receive backward
send backward: send backward <- compute
)");
}

// A batch travels over the communicator of all stages, whose 32 channels four ranks share; single
// messages over that of the two ranks. 1 MiB fills 16.
TEST_CASE("Beside compute messages take the channels of two ranks' communicator", "[lower]") {
  strategy::Plan plan = small_plan({.layers = 8,
                                    .pipeline = 4,
                                    .chunks = 2,
                                    .micro_batches = 4,
                                    .schedule = "interleaved_1f1b"});
  plan.stage_transport.holds_compute = true;
  const auto held = [&](bool overlaps) {
    plan.stage_transport.overlaps = overlaps;
    const program::World world = lower_small(plan, features_under_test());
    int most = 0;
    for (const program::Price& price : world.shapes[world.channels[0].shape].prices) {
      most = std::max<int>(most, price.pressure_waiting);
    }
    return most;
  };
  CHECK(held(false) == 8);
  CHECK(held(true) == 16);
}

TEST_CASE("What messages fill and carry stands between the passes", "[lower]") {
  // The last stage: results of its first chunk travel, until the next forward pass gives them up.
  const std::string seen = Traced(overlapped(), 1).of({"sent result", "sent gradient", "pass"});
  CHECK(seen.find("+ sent result") < seen.find("- sent result"));
  const auto count = [&](const std::string& what) {
    std::size_t n = 0;
    for (std::size_t at = seen.find(what); at != std::string::npos; at = seen.find(what, at + 1)) {
      ++n;
    }
    return n;
  };
  CHECK(count("+ sent result") == 4);  // micro-batches of the first chunk
  CHECK(count("- sent result") == 4);
  CHECK(count("+ sent gradient") == 8);  // those of both chunks
  CHECK(count("- sent gradient") == 8);
}

}  // namespace stepcast::lower::test
