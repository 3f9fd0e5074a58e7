// Reduction of gradients in buckets.
#include <algorithm>
#include <sstream>
#include <string>

#include "catch.hpp"
#include "lower/world/groups.h"
#include "traced.h"

namespace stepcast::lower::test {

constexpr std::int64_t kMiB = 1 << 20;

TEST_CASE("DDP's buckets hold whole arrays, last to first, the first one smaller", "[lower]") {
  strategy::Plan plan = small_plan({.micro_batches = 2});
  run_eagerly(plan);
  plan.state_layout.gradients_stand = false;
  strategy::GradientSync& sync = plan.gradient_sync;
  sync.overlaps = sync.each_pass = sync.sends_as_filled = true;
  sync.bucket_elements = 25 * kMiB / 4;  // fp32 elements
  sync.first_bucket_elements = kMiB / 4;
  sync.storage = BucketStorage::standing;
  const Traced traced(plan);
  CHECK(traced.of({"gradients", "gradient buckets"}) == R"(= gradient buckets 364945408
+ gradients 131080192
compute: copy gradients into buckets
data: gradients all_reduce 131072000 <- compute
+ gradients 50348032
compute: copy gradients into buckets
data: gradients all_reduce 33562624 <- compute
+ gradients 50348032
compute: copy gradients into buckets
data: gradients all_reduce 33570816 <- compute
data: gradients all_reduce 33562624 <- compute
+ gradients 133169152
compute: copy gradients into buckets
data: gradients all_reduce 133177344 <- compute
compute: copy gradients into buckets
data: gradients all_reduce 131072000 <- compute
compute: copy gradients into buckets
data: gradients all_reduce 33562624 <- compute
compute: copy gradients into buckets
data: gradients all_reduce 33570816 <- compute
data: gradients all_reduce 33562624 <- compute
compute: copy gradients into buckets
data: gradients all_reduce 133177344 <- compute
compute: copy gradients out of buckets <- data
- gradients
- gradients
- gradients
- gradients
)");
}

// torchtune's optimizer_in_bwd: a weight's gradient goes as soon as it is stepped.
TEST_CASE("An optimizer in the backward pass leaves one gradient at a time", "[lower]") {
  strategy::Plan plan = small_plan();
  run_eagerly(plan);
  plan.state_layout.gradients_stand = false;
  plan.optimizer_step.in_backward = true;
  const Traced traced(plan);
  std::int64_t live = 0;
  std::int64_t made = 0;
  std::istringstream lines(traced.of({"gradients"}));
  for (std::string line; std::getline(lines, line);) {
    live += line.starts_with("+ gradients ") ? 1 : line == "- gradients" ? -1 : 0;
    made += line.starts_with("+ gradients ") ? 1 : 0;
    CHECK(live <= 1);
  }
  CHECK(live == 0);
  CHECK(made == 4);  // head, two layers, embedding
}

TEST_CASE("DeepSpeed reduces what is left at the end of a backward pass", "[lower]") {
  strategy::Plan plan = small_plan();
  run_eagerly(plan);
  share(plan, strategy::DataComm::shard_grads);
  keep_narrow_gradients(plan);
  strategy::GradientSync& sync = plan.gradient_sync;
  sync.operation = strategy::GradientSync::Operation::all_reduce;
  sync.each_pass = sync.sends_as_filled = sync.always_in_buckets = true;
  sync.bucket_elements = 500'000'000;
  sync.storage = BucketStorage::flat;
  const Traced traced(plan);
  CHECK(traced.of({"gradients", "gradient buckets"}) == R"(= gradients 22809088
= gradient buckets 1000000000
compute: gradients all_reduce 182472704
+ fp32 gradients 45618176
compute: main gradients
- fp32 gradients
compute: zero gradients
)");
}

TEST_CASE(
    "DeepSpeed's ZeRO-1 copies gradients into a passing bucket behind the last pass, and keeps a "
    "part",
    "[lower]") {
  strategy::Plan plan = small_plan({.layers = 1, .micro_batches = 2});
  run_eagerly(plan);
  share(plan, strategy::DataComm::shard_states);
  keep_narrow_gradients(plan);
  plan.state_layout.gradients_stand = plan.optimizer_step.zeroes_gradients = false;
  strategy::GradientSync& sync = plan.gradient_sync;
  sync.operation = strategy::GradientSync::Operation::all_reduce;
  sync.always_in_buckets = sync.bucket_before_overflow = true;
  sync.bucket_elements = 60'000'000;
  sync.storage = BucketStorage::flat;
  const Traced traced(plan);
  CHECK(traced.of({"gradients", "gradient buckets"}) == R"(+ gradient buckets 120000000
+ gradients 65540096
+ gradients 25174016
+ gradients 66584576
- gradients
- gradients
compute: gradients all_reduce 91762688
+ partition of gradients 65536000
- gradients
compute: gradients all_reduce 65536000
- gradient buckets
+ fp32 gradients 39324672
compute: main gradients
- partition of gradients
- fp32 gradients
)");
}

// InternEvo: a bucket is copied back once the next one is under way.
TEST_CASE("Of buckets that are one tensor each, two stand at most", "[lower]") {
  strategy::Plan plan = small_plan();
  run_eagerly(plan);
  plan.state_layout.gradients_stand = plan.optimizer_step.zeroes_gradients = false;
  strategy::GradientSync& sync = plan.gradient_sync;
  sync.operation = strategy::GradientSync::Operation::all_reduce;
  sync.always_in_buckets = sync.bucket_before_overflow = true;
  sync.bucket_elements = 40'000'000;
  sync.storage = BucketStorage::as_made;
  const Traced traced(plan);
  const std::string label = "flat gradients of a bucket";
  std::istringstream lines(traced.of({label, "gradients all_reduce"}));
  int live = 0;
  int most = 0;
  double flat = 0;
  double sent = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("+ " + label)) {
      flat += std::stod(line.substr(label.size() + 3));
      most = std::max(most, ++live);
    } else if (line == "- " + label) {
      --live;
    } else {
      sent += std::stod(line.substr(line.find("all_reduce ") + 11));
    }
  }
  CHECK(live == 0);
  CHECK(most == 2);
  CHECK(flat == sent);  // in the format in which they travel
}

TEST_CASE("DeepSpeed's ZeRO-2 does so in every pass", "[lower]") {
  strategy::Plan plan = small_plan({.layers = 1, .micro_batches = 2});
  run_eagerly(plan);
  share(plan, strategy::DataComm::shard_grads);
  keep_narrow_gradients(plan);
  plan.state_layout.gradients_stand = plan.optimizer_step.zeroes_gradients = false;
  strategy::GradientSync& sync = plan.gradient_sync;
  sync.operation = strategy::GradientSync::Operation::all_reduce;
  sync.each_pass = sync.sends_as_filled = sync.always_in_buckets = true;
  sync.bucket_elements = 500'000'000;
  sync.storage = BucketStorage::flat;
  const Traced traced(plan);
  // The partition: the whole table, which the first of eight shards of the states is a part of.
  CHECK(traced.of({"gradients", "gradient buckets"}) == R"(+ gradient buckets 1000000000
+ gradients 65540096
- gradients
+ gradients 25174016
- gradients
+ gradients 66584576
- gradients
+ partition of gradients 65536000
compute: gradients all_reduce 157298688
- gradient buckets
+ gradient buckets 1000000000
+ gradients 65540096
- gradients
+ gradients 25174016
- gradients
+ gradients 66584576
- gradients
+ partition of gradients 65536000
- partition of gradients
compute: gradients all_reduce 157298688
- gradient buckets
+ fp32 gradients 39324672
compute: main gradients
- partition of gradients
- fp32 gradients
)");
}

TEST_CASE("Whole gradients are summed over all ranks, although fewer share the states", "[lower]") {
  strategy::Plan plan = small_plan();
  share(plan, strategy::DataComm::shard_states);
  plan.shard_ranks = 4;
  plan.replicas = 2;
  plan.gradient_sync.operation = strategy::GradientSync::Operation::all_reduce;
  const Traced traced(plan);
  CHECK(traced.of({"gradients"}) == R"(= gradients 364945408
compute: gradients all_reduce 364945408
compute: zero gradients
)");
  std::vector<std::vector<int>> all;
  std::vector<std::vector<int>> shards;
  bool replicas = false;
  each_group(plan, [&](Role role, const std::vector<int>& ranks) {
    if (role == kAllData) {
      all.push_back(ranks);
    } else if (role == kData) {
      shards.push_back(ranks);
    }
    replicas = replicas || role == kReplicas;
  });
  CHECK(all == std::vector<std::vector<int>>{{0, 1, 2, 3, 4, 5, 6, 7}});
  CHECK(shards == std::vector<std::vector<int>>{{0, 1, 2, 3}, {4, 5, 6, 7}});
  CHECK_FALSE(replicas);
}

TEST_CASE("Interleaved stages reduce a chunk together", "[lower]") {
  strategy::Plan plan = small_plan({.layers = 4,
                                    .pipeline = 2,
                                    .chunks = 2,
                                    .micro_batches = 4,
                                    .schedule = "interleaved_1f1b"});
  share(plan, strategy::DataComm::shard_states);
  plan.stage_transport.holds_compute = plan.stage_transport.overlaps = true;
  strategy::GradientSync& sync = plan.gradient_sync;
  sync.overlaps = sync.sends_as_filled = true;
  sync.first_stage_only = sync.aligned = true;
  const Traced traced(plan, 1);
  CHECK(traced.of({"data:", "send backward"}) == R"(send backward: send backward <- compute
send backward: send backward <- compute
send backward: send backward <- compute
send backward: send backward <- compute
send backward: send backward <- compute
send backward: send backward <- compute
data: gradients reduce_scatter 181428224 <- compute
send backward: send backward <- compute
send backward: send backward <- compute
data: gradients reduce_scatter 50348032 <- compute
)");
}

TEST_CASE(
    "Gradients that are made under no_sync stand beside their bucket until they are copied there",
    "[lower]") {
  strategy::Plan plan = small_plan({.layers = 1, .micro_batches = 2});
  run_eagerly(plan);
  plan.state_layout.gradients_stand = false;
  strategy::GradientSync& sync = plan.gradient_sync;
  sync.overlaps = sync.sends_as_filled = sync.live_in_buckets = true;
  sync.broadcasts_buffers = true;
  sync.bucket_elements = 500'000'000;
  sync.storage = BucketStorage::standing;
  const Traced traced(plan);
  CHECK(traced.of({"gradients", "gradient buckets", "buffers"}) == R"(= gradient buckets 314597376
compute: buffers broadcast 256
+ gradients 131080192
+ gradients 50348032
+ gradients 133169152
- gradients
- gradients
- gradients
data: gradients all_reduce 314597376 <- compute
)");
}

}  // namespace stepcast::lower::test
