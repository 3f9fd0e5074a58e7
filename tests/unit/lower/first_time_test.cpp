// Adapters that cast what they read only where their layer is met for the first time.
#include <set>
#include <vector>

#include "catch.hpp"
#include "lower/stage/feature_list.h"
#include "small_plan.h"

using namespace stepcast;
using namespace stepcast::lower;

namespace {

constexpr std::int64_t kMiB = 1 << 20;

strategy::Plan plan_with_adapters(int micro_batches) {
  strategy::Plan plan = test::small_plan({.micro_batches = micro_batches});
  test::run_eagerly(plan);
  plan.style.finetune.kind = job::Finetune::Kind::lora;
  plan.style.finetune.rank = 8;
  plan.style.finetune.targets = {"q", "v"};
  return plan;
}

program::Program lowered(const strategy::Plan& plan) {
  return test::lower_small(plan, {}).programs.front();
}

// By what the first step has more than other steps: buffers that stand from pass to pass.
std::vector<std::int64_t> more_in_first_step(const program::Program& p) {
  std::vector<std::int64_t> out;
  for (const program::Buffer& b : p.buffers) {
    if (b.first_step != program::kNone && !b.transient) {
      out.push_back((p.first_steps[b.first_step].bytes - b.bytes).count());
    }
  }
  return out;
}

}  // namespace

// 512 tokens of 1024 elements in 16 bits are 1 MiB, which both adapters of a layer read.
TEST_CASE("in the first pass each adapter of a layer keeps a copy of what both share later") {
  strategy::Plan plan = plan_with_adapters(2);
  CHECK(lowered(plan).first_steps.empty());
  plan.style.casts_adapters_once = true;
  const program::Program p = lowered(plan);
  CHECK(more_in_first_step(p) == std::vector<std::int64_t>{kMiB, kMiB});
  // Of both layers what stands, what the forward and what the backward pass makes beside: all of
  // the first micro-batch.
  CHECK(p.first_steps.size() == 6);
  plan.style.casts_adapters_once = false;
  plan.style.casts_adapter_inputs = true;
  const program::Program always = lowered(plan);
  CHECK(always.first_steps.empty());
  std::multiset<std::int64_t> of_first, of_always;
  for (const program::Buffer& b : p.buffers) {
    if (b.first_step != program::kNone) {
      of_first.insert(p.first_steps[b.first_step].bytes.count());
    }
  }
  for (const program::Buffer& b : always.buffers) {
    of_always.insert(b.bytes.count());
  }
  for (const std::int64_t bytes : of_first) {
    CHECK(of_always.count(bytes) > 0);
  }
}

TEST_CASE("what runs again has met its layer before") {
  strategy::Plan plan = plan_with_adapters(1);
  plan.style.casts_adapters_once = true;
  plan.recompute.kind = RecomputeKind::full;
  const program::Program p = lowered(plan);
  CHECK(more_in_first_step(p).empty());
  CHECK(p.first_steps.size() == 2);  // forward passes that keep nothing
}
