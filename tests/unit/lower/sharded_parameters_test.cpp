// Parameters that are gathered unit by unit.
#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

#include "catch.hpp"
#include "traced.h"

namespace stepcast::lower::test {

TEST_CASE("Units are gathered ahead of both passes and given up behind them", "[lower]") {
  strategy::Plan plan = small_plan();
  run_eagerly(plan);
  share_units(plan);
  const Traced traced(plan);
  CHECK(traced.of({"parameters", "<- data"}) == R"(= parameters 45618176
+ gathered parameters 132124672
all-gather: parameters all_gather 132124672 <- compute of the step before
+ unsharded parameters 132124672
+ gathered parameters 25174016
all-gather: parameters all_gather 25174016 <- compute
- gathered parameters
+ unsharded parameters 25174016
- unsharded parameters
+ gathered parameters 25174016
all-gather: parameters all_gather 25174016 <- compute
- gathered parameters
+ unsharded parameters 25174016
- unsharded parameters
- gathered parameters
+ gathered parameters 25174016
all-gather: parameters all_gather 25174016 <- compute
+ unsharded parameters 25174016
- gathered parameters
+ gathered parameters 25174016
all-gather: parameters all_gather 25174016 <- compute
- unsharded parameters
+ unsharded parameters 25174016
- gathered parameters
- unsharded parameters
- unsharded parameters
)");
}

// XLA's programs: of a layer of 12.6 million parameters the largest weight has 4.2 million.
TEST_CASE("Weights that come one by one stand one at a time, and so do their gradients",
          "[lower]") {
  strategy::Plan plan = small_plan();
  run_eagerly(plan);
  share_units(plan);
  plan.parameter_gather.flat = true;
  plan.parameter_gather.ends_join_root = false;
  const Traced whole(plan);
  plan.parameter_gather.by_arrays = true;
  const Traced traced(plan);
  const auto sizes_of = [](const Traced& t, const std::string& label) {
    std::set<std::int64_t> sizes;
    std::istringstream lines(t.of({label}));
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("+ " + label + " ")) {
        sizes.insert(std::stoll(line.substr(label.size() + 3)));
      }
    }
    return sizes;
  };
  constexpr std::int64_t kLargest = 2LL * 1024 * 4096;  // bytes of a layer's
  constexpr std::int64_t kTable = 2LL * 32000 * 1024;
  CHECK(sizes_of(traced, "gathered parameters") == std::set{kLargest, kTable});
  CHECK(sizes_of(traced, "unsharded gradients") == std::set{kLargest, kTable});
  CHECK(sizes_of(whole, "gathered parameters").contains(25174016));
  // What travels is the same.
  CHECK(traced.of({"parameters all_gather"}) == whole.of({"parameters all_gather"}));
  CHECK(traced.of({"gradients reduce_scatter"}) == whole.of({"gradients reduce_scatter"}));
}

TEST_CASE("What a head gathers ahead behind its loss is made within its backward pass", "[lower]") {
  strategy::Plan plan = small_plan();
  run_eagerly(plan);
  share_units(plan);
  plan.parameter_gather.ends_join_root = false;
  plan.parameter_gather.keeps_head = true;
  plan.parameter_gather.backward_prefetch = Prefetch::explicit_;
  plan.loss_form.outside_model = true;
  const std::string trace = Traced(plan).of({"parameters", "pass"});
  // Ahead of the kernels of the loss, with a place behind them; the gather itself comes later.
  const std::string_view made =
      "+ gathered parameters 25174016\ncompute: pass\n"
      "all-gather: parameters all_gather 25174016 <- compute\ncompute: pass\n";
  CHECK(trace.find(made) != std::string::npos);
}

TEST_CASE("Units of their own may stay whole, and gathers wait for a loss outside the model",
          "[lower]") {
  strategy::Plan plan = small_plan();
  run_eagerly(plan);
  share_units(plan);
  plan.parameter_gather.ends_join_root = false;
  plan.parameter_gather.keeps_head = true;
  plan.parameter_gather.keeps_last_layer = true;
  plan.loss_form.outside_model = true;
  const Traced traced(plan);
  CHECK(traced.of({"parameters", "pass"}) == R"(= parameters 45618176
+ gathered parameters 66584576
all-gather: parameters all_gather 66584576 <- compute of the step before
+ unsharded parameters 66584576
compute: pass <- all-gather
compute: pass
- unsharded parameters
+ gathered parameters 25174016
all-gather: parameters all_gather 25174016 <- compute
- gathered parameters
+ unsharded parameters 25174016
compute: pass <- all-gather
compute: pass
- unsharded parameters
+ gathered parameters 25174016
all-gather: parameters all_gather 25174016 <- compute
- gathered parameters
+ unsharded parameters 25174016
compute: pass <- all-gather
compute: pass
+ gathered parameters 65540096
all-gather: parameters all_gather 65540096 <- compute
- gathered parameters
+ unsharded parameters 65540096
compute: pass <- all-gather
- gathered parameters
compute: pass
compute: pass
- unsharded parameters
+ gathered parameters 25174016
all-gather: parameters all_gather 25174016 <- compute, reduce-scatter
compute: pass
- unsharded parameters
+ unsharded parameters 25174016
compute: pass <- all-gather
- gathered parameters
+ gathered parameters 66584576
all-gather: parameters all_gather 66584576 <- compute, reduce-scatter
compute: pass
- unsharded parameters
+ unsharded parameters 66584576
compute: pass <- all-gather
- gathered parameters
compute: pass
- unsharded parameters
)");
}

TEST_CASE(
    "DeepSpeed's large modules, half of which are offloaded, are gathered again between a forward "
    "pass that ran again and its backward pass",
    "[lower]") {
  strategy::Plan plan = small_plan();
  run_eagerly(plan);
  share_modules(plan);
  plan.parameter_gather.reuse_elements = 0;
  plan.offload.parameters = {OffloadTarget::cpu, 0.5};
  plan.recompute.kind = RecomputeKind::full;
  const Traced traced(plan);
  CHECK(traced.of({"parameters", "<- data"}) == R"(= parameters 11404800
= small parameters, whole 17920
= parameters 11403264
+ fetched parameters 4161536
host to device: parameters 4161536 <- compute of the step before, device to host of the step before, compute of the step before, compute of the step before
+ gathered parameters 66584576
all-gather: parameters all_gather 66584576 <- compute of the step before, host to device
- fetched parameters
+ unsharded parameters 66584576
+ fetched parameters 1572864
host to device: parameters 1572864 <- compute
+ fetched parameters 1572864
host to device: parameters 1572864 <- compute
+ gathered parameters 25165824
all-gather: parameters all_gather 25165824 <- compute, host to device
- fetched parameters
+ gathered parameters 25165824
all-gather: parameters all_gather 25165824 <- compute, host to device
- fetched parameters
+ fetched parameters 4096000
host to device: parameters 4096000 <- compute, all-gather
+ gathered parameters 65536000
all-gather: parameters all_gather 65536000 <- compute, host to device
- fetched parameters
- unsharded parameters
- gathered parameters
+ unsharded parameters 25165824
- unsharded parameters
- gathered parameters
+ unsharded parameters 25165824
- unsharded parameters
- gathered parameters
+ unsharded parameters 65536000
- gathered parameters
- unsharded parameters
+ fetched parameters 4096000
host to device: parameters 4096000 <- compute, all-gather
+ gathered parameters 65536000
all-gather: parameters all_gather 65536000 <- compute, host to device
- fetched parameters
+ unsharded parameters 65536000
- gathered parameters
+ fetched parameters 1572864
host to device: parameters 1572864 <- compute
+ fetched parameters 1572864
host to device: parameters 1572864 <- compute
+ gathered parameters 25165824
all-gather: parameters all_gather 25165824 <- compute, host to device
- fetched parameters
+ gathered parameters 25165824
all-gather: parameters all_gather 25165824 <- compute, host to device
- fetched parameters
+ fetched parameters 4161536
host to device: parameters 4161536 <- compute, all-gather
+ gathered parameters 66584576
all-gather: parameters all_gather 66584576 <- compute, host to device
- fetched parameters
- unsharded parameters
+ unsharded parameters 25165824
- gathered parameters
- unsharded parameters
+ fetched parameters 1572864
host to device: parameters 1572864 <- compute, all-gather
+ gathered parameters 25165824
all-gather: parameters all_gather 25165824 <- compute, host to device
- fetched parameters
+ unsharded parameters 25165824
- gathered parameters
- unsharded parameters
+ unsharded parameters 25165824
- gathered parameters
- unsharded parameters
+ fetched parameters 1572864
host to device: parameters 1572864 <- compute, all-gather
+ gathered parameters 25165824
all-gather: parameters all_gather 25165824 <- compute, host to device
- fetched parameters
+ unsharded parameters 25165824
- gathered parameters
- unsharded parameters
+ unsharded parameters 66584576
- gathered parameters
- unsharded parameters
device to host: updated parameters 4161536 <- compute
device to host: updated parameters 1573376
device to host: updated parameters 1573376
device to host: updated parameters 4096256
compute: parameters all_gather 2048 <- host to device
compute: parameters all_gather 2048
compute: parameters all_gather 2048
compute: parameters all_gather 2048
compute: parameters all_gather 2048
compute: parameters all_gather 2048
compute: parameters all_gather 2048
compute: parameters all_gather 2048
compute: parameters all_gather 2048
compute: parameters all_gather 2048
)");
}

TEST_CASE("A checkpoint around a unit has it gathered for both of its backward passes", "[lower]") {
  strategy::Plan plan = small_plan();
  run_eagerly(plan);
  share_units(plan);
  plan.recompute.kind = RecomputeKind::full;
  const auto gathers = [&] {
    const std::string lines = Traced(plan).of({"all_gather 25174016"});
    return std::count(lines.begin(), lines.end(), '\n');
  };
  CHECK(gathers() == 2 * 2);
  plan.parameter_gather.checkpointed = true;
  CHECK(gathers() == 2 * 3);
}

TEST_CASE("DeepSpeed gathers parameters by its trace wherever their shards lie", "[lower]") {
  strategy::Plan plan = small_plan();
  share_modules(plan);
  const std::string here = Traced(plan).of({"gathered parameters", "unsharded parameters"});
  plan.offload.parameters.to = OffloadTarget::cpu;
  CHECK(Traced(plan).of({"gathered parameters", "unsharded parameters"}) == here);
}

TEST_CASE("DeepSpeed gathers a module in part offloaded in groups that fill its prefetch bucket",
          "[lower]") {
  strategy::Plan plan = small_plan({.layers = 1});
  share_modules(plan);
  plan.parameter_gather.prefetch_elements = 4'500'000;
  plan.parameter_gather.reuse_elements = 0;
  plan.offload.parameters = {OffloadTarget::cpu, 0.5};
  const Traced traced(plan);
  // Of 3.1, 1.0, 4.2 and 4.2 million elements: three arrays and one, backward two and two.
  CHECK(traced.of({"all_gather 16777216", "all_gather 8388608"}) ==
        R"(all-gather: parameters all_gather 16777216 <- compute, host to device
all-gather: parameters all_gather 8388608
all-gather: parameters all_gather 16777216 <- compute, host to device
all-gather: parameters all_gather 8388608
)");
}

TEST_CASE("A head that is called for chunks is gathered for each, its norm with the root",
          "[lower]") {
  strategy::Plan plan = small_plan({.layers = 1});
  run_eagerly(plan);
  share_units(plan);
  plan.parameter_gather.ends_join_root = false;
  plan.parameter_gather.norm_in_root = true;
  plan.style.loss = plan.loss_form.kernel = LossKernel::output_chunks;
  const Traced traced(plan);
  CHECK(traced.of({"parameters", "gradients reduce_scatter"}) == R"(= parameters 39324672
all-gather: parameters all_gather 4096
+ gathered parameters 66584576
all-gather: parameters all_gather 66584576 <- compute of the step before
+ unsharded parameters 66584576
- unsharded parameters
+ gathered parameters 25174016
all-gather: parameters all_gather 25174016 <- compute
- gathered parameters
+ unsharded parameters 25174016
- unsharded parameters
+ gathered parameters 65536000
all-gather: parameters all_gather 65536000 <- compute
all-gather: parameters all_gather 65536000
all-gather: parameters all_gather 65536000
all-gather: parameters all_gather 65536000
all-gather: parameters all_gather 65536000
all-gather: parameters all_gather 65536000
all-gather: parameters all_gather 65536000
all-gather: parameters all_gather 65536000
- gathered parameters
+ unsharded parameters 65536000
+ gathered parameters 65536000
- gathered parameters
- gathered parameters
- unsharded parameters
+ gathered parameters 65536000
all-gather: parameters all_gather 65536000 <- compute
all-gather: parameters all_gather 65536000
all-gather: parameters all_gather 65536000
all-gather: parameters all_gather 65536000
all-gather: parameters all_gather 65536000
all-gather: parameters all_gather 65536000
all-gather: parameters all_gather 65536000
all-gather: parameters all_gather 65536000
+ unsharded parameters 65536000
+ gathered parameters 25174016
all-gather: parameters all_gather 25174016 <- compute
- gathered parameters
- unsharded parameters
reduce-scatter: gradients reduce_scatter 131072000 <- all-gather, compute
+ unsharded parameters 25174016
- gathered parameters
+ gathered parameters 66584576
all-gather: parameters all_gather 66584576 <- compute, reduce-scatter
- unsharded parameters
reduce-scatter: gradients reduce_scatter 50348032 <- all-gather, compute
+ unsharded parameters 66584576
- gathered parameters
- unsharded parameters
reduce-scatter: gradients reduce_scatter 133169152 <- all-gather, compute
reduce-scatter: gradients reduce_scatter 8192 <- compute
)");
}

TEST_CASE("FSDP1 gives a frozen unit up behind the gather of the unit before", "[lower]") {
  strategy::Plan plan = small_plan();
  run_eagerly(plan);
  share_units(plan);
  plan.parameter_gather.flat = plan.parameter_gather.wraps_adapters = true;
  plan.parameter_gather.backward_prefetch = Prefetch::implicit_;
  plan.style.finetune.kind = job::Finetune::Kind::lora;
  plan.style.finetune.rank = 8;
  plan.style.finetune.targets = {"q"};
  const Traced traced(plan);
  // Two layers, between a root that stays: forward one after the other, backward side by side.
  CHECK(traced.of({"gathered parameters"}) == R"(+ gathered parameters 132124672
+ gathered parameters 25206784
- gathered parameters
+ gathered parameters 25206784
- gathered parameters
+ gathered parameters 25206784
+ gathered parameters 25206784
- gathered parameters
- gathered parameters
- gathered parameters
)");
}

}  // namespace stepcast::lower::test
