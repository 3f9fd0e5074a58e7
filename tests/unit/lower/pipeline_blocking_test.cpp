// Pipeline messages that block the compute stream.
#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "catch.hpp"
#include "muted.h"
#include "traced.h"

namespace stepcast::lower::test {

TEST_CASE("Where the pass changes, send and receive are posted together", "[lower]") {
  strategy::Plan plan = small_plan({.pipeline = 2, .micro_batches = 4});
  plan.stage_transport.holds_compute = true;
  const Traced traced(plan);
  CHECK(traced.of({"send", "receive"}) == R"(compute: send
compute: send and receive
compute: send and receive
compute: send and receive
compute: receive
)");
}

TEST_CASE("The last stage begins with a receive", "[lower]") {
  strategy::Plan plan = small_plan({.pipeline = 2, .micro_batches = 4});
  plan.stage_transport.holds_compute = true;
  const Traced traced(plan, 1);
  CHECK(traced.of({"send", "receive"}) == R"(compute: receive
compute: send and receive
compute: send and receive
compute: send and receive
compute: send
)");
}

TEST_CASE("One at a time: send first behind a forward pass, receive first behind a backward pass",
          "[lower]") {
  strategy::Plan plan = small_plan({.pipeline = 2, .micro_batches = 3});
  plan.stage_transport.holds_compute = plan.stage_transport.follows_pass = true;
  plan.stage_transport.batched = false;
  CHECK(Traced(plan).of({"send", "receive"}) == R"(compute: send
compute: send
compute: receive
compute: send
compute: receive
compute: receive
)");
  CHECK(Traced(plan, 1).of({"send", "receive"}) == R"(compute: receive
compute: receive
compute: send
compute: receive
compute: send
compute: send
)");
}

TEST_CASE("Gradients travel whole where tensor ranks send parts of activations alone", "[lower]") {
  strategy::Plan plan = small_plan({.tensor = 2, .pipeline = 2, .micro_batches = 2});
  plan.stage_transport.holds_compute = plan.stage_transport.scatter_gather = true;
  plan.stage_transport.batched = false;
  const auto prices = [&] {
    const program::World world = lower_small(plan, features_under_test());
    std::set<std::pair<bool, std::uint32_t>> out;  // of the first stage: is it sent; which size
    for (const program::Transfer& t : world.programs[0].transfers) {
      out.emplace(t.send, t.price);
    }
    return out;
  };
  using Prices = std::set<std::pair<bool, std::uint32_t>>;
  CHECK(prices() == Prices{{true, 0}, {false, 0}});
  plan.stage_transport.whole_gradients = true;
  CHECK(prices() == Prices{{true, 0}, {false, 1}});
}

TEST_CASE("A host that waits for each launch does so behind every kernel and collective",
          "[lower]") {
  strategy::Plan plan = small_plan({.tensor = 2, .pipeline = 2, .micro_batches = 2});
  plan.stage_transport.holds_compute = true;
  const auto waits = [&] {
    const program::World world = lower_small(plan, features_under_test());
    const program::Program& p = world.programs[0];
    const auto syncs = std::count_if(p.host.begin(), p.host.end(), [](const program::HostOp& op) {
      return op.kind == program::HostKind::sync;
    });
    const auto launched = std::count_if(p.tasks.begin(), p.tasks.end(), [](const program::Task& t) {
      return t.kind == program::TaskKind::kernel || t.kind == program::TaskKind::collective;
    });
    return std::pair(syncs, launched);
  };
  const auto [before, tasks] = waits();
  plan.host.waits_each_launch = true;
  CHECK(waits().first == before + tasks);
}

TEST_CASE("Forward passes and those that make a gradient of the input begin with the host's work",
          "[lower]") {
  constexpr Time kWork(17'000'000);
  const auto begun = [&](const strategy::Plan& plan) {
    const program::World world = lower_small(plan, features_under_test());
    const auto& host = world.programs[0].host;
    return std::count_if(host.begin(), host.end(), [&](const program::HostOp& op) {
      return op.kind == program::HostKind::work && op.duration == kWork;
    });
  };
  strategy::Plan plan = small_plan({.pipeline = 2, .micro_batches = 4});
  plan.stage_transport.holds_compute = true;
  CHECK(begun(plan) == 0);
  plan.host.pass_overhead = kWork;
  CHECK(begun(plan) == 2 * 4);
}

}  // namespace stepcast::lower::test
