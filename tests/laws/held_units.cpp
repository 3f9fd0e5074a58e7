// What a pipeline rank holds from pass to pass: in closed form of its order of passes.
#include <algorithm>

#include "bound/held.h"
#include "catch.hpp"

using namespace stepcast;

namespace {

using schedule::Slot;
using Kind = schedule::Pass;

constexpr std::int64_t kKept = 1000;
constexpr std::int64_t kElements = 100;

// Of one chunk: `ahead` forward passes, then one forward and one backward pass in turns.
strategy::Plan one_rank(int micro_batches, int ahead) {
  strategy::Plan plan;
  std::vector<Slot> slots;
  for (int forward = 0, backward = 0; backward < micro_batches; ++backward) {
    for (; forward < micro_batches && forward <= backward + ahead; ++forward) {
      slots.push_back({Kind::forward, forward, 0});
    }
    slots.push_back({Kind::backward, backward, 0});
  }
  plan.order.ranks = {slots};
  return plan;
}

bound::Pass pass() {
  bound::Pass out;
  out.kept = kKept;
  out.layer_parameters = kElements;
  return out;
}

lower::WholeUnits in_bf16() {
  lower::WholeUnits out;
  out.applies = true;
  out.parameter = 2;
  out.gradient = 4;
  return out;
}

}  // namespace

TEST_CASE("A rank holds a micro-batch more than those it runs ahead, and at most all", "[laws]") {
  for (const int ahead : {0, 1, 3, 7, 20}) {
    CHECK(bound::most_held(one_rank(8, ahead), 0, {pass()}, {}) == std::min(8, ahead + 1) * kKept);
  }
}

TEST_CASE("Temporaries of a pass's last unit come on top of all that the rank holds", "[laws]") {
  bound::Pass of = pass();
  of.last_forward = 30;
  CHECK(bound::most_held(one_rank(8, 2), 0, {of}, {}) == 3 * kKept + 30);
  of.last_backward = 40;
  CHECK(bound::most_held(one_rank(8, 2), 0, {of}, {}) == 3 * kKept + 40);
}

TEST_CASE("Units that stay whole are held once, and their gradients until the last pass",
          "[laws]") {
  lower::WholeUnits units = in_bf16();
  CHECK(bound::most_held(one_rank(4, 1), 0, {pass()}, units) == 2 * kKept + 2 * kElements);
  units.gradients_wait = true;
  CHECK(bound::most_held(one_rank(4, 1), 0, {pass()}, units) == 2 * kKept + (2 + 4) * kElements);
  // With one micro-batch nothing waits: its gradients are reduced as they come.
  CHECK(bound::most_held(one_rank(1, 0), 0, {pass()}, units) == kKept + 2 * kElements);
  units.drops_after_forward = units.drops_after_backward = true;
  CHECK(bound::most_held(one_rank(4, 1), 0, {pass()}, units) == 2 * kKept + 4 * kElements);
}

TEST_CASE(
    "Units that are whole for their pass alone stand with what was gathered and what is reduced",
    "[laws]") {
  lower::WholeUnits units = in_bf16();
  units.drops_after_forward = units.drops_after_backward = true;
  bound::Pass of = pass();
  of.last_layer = of.layer_before = 10;
  // Ahead of the last layer's forward pass: its parameters, and the buffer that they came in.
  CHECK(bound::most_held(one_rank(1, 0), 0, {of}, units) == kKept + 2 * 2 * 10);
  // Of a head behind the layers it is not told.
  of.last_is_layer = false;
  CHECK(bound::most_held(one_rank(1, 0), 0, {of}, units) == kKept);
  // Behind the last layer's backward pass: its gradient, what is reduced, and the next layer.
  units.reducing = 2 + 4;
  units.gathers_next = true;
  of.given_up = 50;
  CHECK(bound::most_held(one_rank(1, 0), 0, {of}, units) ==
        std::max(kKept, kKept - 50 + 6 * 10 + 2 * 10));
}

TEST_CASE("Passes that are split give up what they hold with the input gradients", "[laws]") {
  strategy::Plan plan = one_rank(4, 1);
  for (Slot& slot : plan.order.ranks[0]) {
    slot.pass = slot.pass == Kind::backward ? Kind::input_grad : slot.pass;
  }
  for (int n = 0; n < 4; ++n) {
    plan.order.ranks[0].push_back({Kind::weight_grad, n, 0});
  }
  CHECK(bound::most_held(plan, 0, {pass()}, in_bf16()) == 2 * kKept);
}
