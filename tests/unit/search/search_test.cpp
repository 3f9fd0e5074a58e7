// The other parts of a search's result besides the best strategy, and refused requests.
#include "stepcast/search/search.h"

#include <algorithm>

#include "catch.hpp"
#include "support/search_space.h"

using namespace stepcast;

namespace {

constexpr const char* kJob =
    "model: {layers: 8, hidden: 2048, heads: 16, kv_heads: 16, head_dim: 128, ffn: 8192, vocab: "
    "32000}\n"
    "cluster: {use: dgx-a100, nodes: 2}\n"
    "system: megatron-lm\n"
    "workload: {sequence_length: 2048, global_batch: 64}\n";

search::Request request_of(const std::string& space, const std::string& job = kJob) {
  search::Request out;
  out.space = test::space_of(space, job);
  out.front.clear();
  return out;
}

std::string fault(const std::string& space) {
  try {
    test::space_of(space, kJob);
  } catch (const InputError& error) {
    return error.faults().front().message;
  }
  return "";
}

}  // namespace

TEST_CASE("Bounds alone: pruning changes nothing but how many were looked at", "[search]") {
  const auto objective =
      GENERATE(search::Objective::time, search::Objective::cost, search::Objective::energy);
  auto request = request_of(
      "tensor: powers\npipeline: powers\nvirtual_pipeline: [1, 2, 4]\nmicro_batch: powers\n"
      "context: [1, 2]\nsequence_parallel: [false, true]\nsharding: [none, zero1, zero2, zero3]\n"
      "recompute: [none, selective, full]\noffload: [{}, {optimizer: cpu}]\n"
      "parallelism.overlap.grad_reduce: [false, true]\ncluster.nodes: [1, 2]\n");
  request.objective = objective;
  const auto loader = test::loader_of(kJob);
  const auto all = search::search_bounds(request, loader, text::data_directory(), true);
  const auto pruned = search::search_bounds(request, loader, text::data_directory(), false);
  REQUIRE(all.found);
  REQUIRE(all.ranking.size() == 10);
  REQUIRE(pruned.ranking.size() == 10);
  for (std::size_t i = 0; i < 10; ++i) {
    CHECK(all.ranking[i].overrides == pruned.ranking[i].overrides);
    CHECK(all.ranking[i].objective == pruned.ranking[i].objective);
  }
  CHECK(all.counts.candidates == pruned.counts.candidates);
  CHECK(all.counts.impossible == pruned.counts.impossible);
  CHECK(all.counts.alike == pruned.counts.alike);
  CHECK(all.counts.bounded == all.counts.candidates - all.counts.impossible - all.counts.alike);
  CHECK(pruned.counts.bounded + pruned.counts.time_pruned == all.counts.bounded);
  CHECK(pruned.counts.bounded < all.counts.bounded / 10);
  CHECK(std::is_sorted(all.ranking.begin(), all.ranking.end(),
                       [](const auto& a, const auto& b) { return a.objective < b.objective; }));
}

TEST_CASE("Bounds alone list no combination that is refused, and one of those with one bound",
          "[search]") {
  std::string job = std::string(kJob) + "parallelism: {pipeline: 2}\n";
  job.replace(job.find("global_batch: 64"), 16, "global_batch: 24");
  // Interleaved stages take micro-batches by the number of stages, and three are odd.
  const auto request = request_of(
      "pipeline: 2\nvirtual_pipeline: [1, 2, 4]\nmicro_batch: 1\n"
      "parallelism.overlap.param_gather: [false, true]\n",
      job);
  const bool exhaustive = GENERATE(false, true);
  const auto least =
      search::search_bounds(request, test::loader_of(job), text::data_directory(), exhaustive);
  REQUIRE(least.found);
  REQUIRE(least.ranking.size() == 1);
  CHECK(least.best.overrides == std::vector<std::string>{"parallelism.pipeline=2",
                                                         "parallelism.virtual_pipeline=1",
                                                         "workload.micro_batch=1",
                                                         "parallelism.overlap.param_gather=false"});
  REQUIRE_FALSE(least.refusals.empty());
  CHECK_THAT(least.refusals.front().first, ContainsSubstring("expected a multiple of the group"));
  CHECK_THAT(least.why, ContainsSubstring("no bound depends on parallelism.overlap.param_gather"));
}

TEST_CASE("Combinations that are one job are looked at once, under the words of the job as given",
          "[search]") {
  const std::string job = std::string(kJob) + "parallelism: {schedule: zb_h1}\n";
  const auto request = request_of(
      "tensor: [1, 2]\nschedule: [1f1b, zb_h1]\nsequence_parallel: [false, true]\n"
      "parallelism.overlap.pipeline: [false, true]\n"
      "cluster.order: [tp-cp-ep-dp-pp, tp-cp-ep-pp-dp]\n",
      job);
  const auto loader = test::loader_of(job);
  const auto answer = search::search(request, loader, text::data_directory());
  REQUIRE(answer.found);
  CHECK(answer.counts.candidates == 32);
  CHECK(answer.counts.alike == 29);  // of tensor 1 all are one, of tensor 2 the sequence is cut
  CHECK(answer.counts.simulated + answer.counts.memory_pruned + answer.counts.time_pruned == 3);
  const auto least = search::search_bounds(request, loader, text::data_directory(), true);
  REQUIRE(least.found);
  CHECK(least.counts.alike + least.counts.bounded == 32);
  CHECK(least.ranking.size() == 3);
}

TEST_CASE("Where nothing fits, the answer says what is short and by how much", "[search]") {
  const std::string small =
      "model: {layers: 8, hidden: 2048, heads: 16, kv_heads: 16, head_dim: 128, ffn: 8192, vocab: "
      "32000}\n"
      "cluster: {use: dgx-a100, nodes: 1, device: {memory: 1 GB, usable_memory: 1 GB}}\n"
      "system: megatron-lm\nworkload: {sequence_length: 2048, global_batch: 64}\n";
  const auto loader = test::loader_of(small);
  const auto none = search::search(request_of("tensor: [1, 2]\nmicro_batch: [1, 2]\n", small),
                                   loader, text::data_directory());
  CHECK_FALSE(none.found);
  CHECK_THAT(none.nearest, Catch::Matchers::StartsWith("memory: the smallest needs") &&
                               ContainsSubstring("which has 0.9 GiB"));
  const auto least =
      search::search_bounds(request_of("tensor: [1, 2]\nmicro_batch: [1, 2]\n", small), loader,
                            text::data_directory(), false);
  CHECK_FALSE(least.found);
  CHECK_THAT(least.nearest, Catch::Matchers::StartsWith("memory: the smallest needs at least") &&
                                ContainsSubstring("GiB too much"));
}

TEST_CASE("Contradictory sizes and refusals are named", "[search]") {
  const auto loader = test::loader_of(kJob);
  const auto sizes =
      search::search(request_of("tensor: 8\npipeline: 4\n"), loader, text::data_directory());
  CHECK_FALSE(sizes.found);
  CHECK_THAT(sizes.nearest, ContainsSubstring("parallelism.pipeline=4") &&
                                ContainsSubstring("16 ranks; expected at most that"));
  const auto heads = search::search(request_of("tensor: [3, 5]\n"), loader, text::data_directory());
  CHECK_FALSE(heads.found);
  CHECK_THAT(heads.nearest, ContainsSubstring("parallelism.tensor") &&
                                ContainsSubstring("does not divide heads 16"));
  const auto refused = search::search(request_of("kernels.attention: flash3\ntensor: [1, 2]\n"),
                                      loader, text::data_directory());
  CHECK_FALSE(refused.found);
  CHECK_THAT(refused.nearest, ContainsSubstring("compute capability"));
}

TEST_CASE("Sizes that a system runs in no job are no candidates, and are named where all are",
          "[search]") {
  std::string job = kJob;
  job.replace(job.find("megatron-lm"), 11, "pytorch-fsdp2");
  const auto loader = test::loader_of(job);
  const auto least = search::search_bounds(
      request_of("context: [1, 2, 4]\npipeline: [1, 2]\nmicro_batch: [1, 2]\n", job), loader,
      text::data_directory(), true);
  REQUIRE(least.found);
  CHECK(least.counts.candidates == 12);
  CHECK(least.counts.bounded == 2);
  const auto none =
      search::search(request_of("context: [2, 4]\n", job), loader, text::data_directory());
  CHECK_FALSE(none.found);
  CHECK_THAT(none.nearest, ContainsSubstring("pytorch-fsdp2 does not run context"));
  CHECK(none.counts.time_pruned == 0);
}

TEST_CASE("Bounds alone name what stands in the way as the engine's search does", "[search]") {
  const auto loader = test::loader_of(kJob);
  const std::string space = GENERATE("tensor: 8\npipeline: 4\n", "tensor: [3, 5]\n",
                                     "pipeline: 2\nvirtual_pipeline: 3\n");
  const auto least =
      search::search_bounds(request_of(space), loader, text::data_directory(), false);
  const auto engine = search::search(request_of(space), loader, text::data_directory());
  CHECK_FALSE(least.found);
  CHECK_THAT(least.nearest, ContainsSubstring("expected"));
  CHECK(least.nearest == engine.nearest);
  CHECK(least.refusals == engine.refusals);
}

// The job states stages for which the space has no sizes: what refuses every combination is named
// first, although another fault of most of them is found before it.
TEST_CASE("Where no combination is possible, reasons are counted over all of the space",
          "[search]") {
  const std::string job =
      std::string(kJob) + "parallelism: {pipeline: 4, layers_per_stage: [1, 3, 3, 1]}\n";
  search::Request request = request_of("pipeline: [1, 2]\nmicro_batch: [1, 3, 5]\n", job);
  request.reasons = [&](const std::vector<std::string>& overrides) {
    std::vector<Infeasible> out;
    try {
      input::parse(job, "job", overrides);
    } catch (const InputError& error) {
      for (const Fault& fault : error.faults()) {
        out.push_back({to_string(fault.where), fault.message});
      }
    }
    return out;
  };
  const auto engine = search::search(request, test::loader_of(job), text::data_directory());
  CHECK_FALSE(engine.found);
  CHECK(engine.counts.candidates == 6);
  CHECK(engine.counts.impossible == 6);
  CHECK_THAT(engine.nearest,
             Catch::Matchers::StartsWith("6 are refused as in: job:5:") &&
                 ContainsSubstring("layers_per_stage has 4 entries; expected 1 (one per stage)") &&
                 ContainsSubstring("; 4 as in: job:4:") &&
                 ContainsSubstring("global_batch 64 is not a multiple of data 16 x micro_batch 3"));
  const auto least =
      search::search_bounds(request, test::loader_of(job), text::data_directory(), false);
  CHECK(least.nearest == engine.nearest);
}

TEST_CASE("A value that no job can have is a fault at its place", "[search]") {
  const auto faults = [](const std::string& space) {
    std::vector<std::string> out;
    try {
      search::check_values(test::space_of(space, kJob));
    } catch (const InputError& error) {
      for (const Fault& one : error.faults()) {
        out.push_back(to_string(one));
      }
    }
    return out;
  };
  CHECK(faults("tensor: [1, 3, 1024]\nrecompute: [none, {every: 2}]\ncluster.use: [dgx-a100]\n"
               "offload: [{}, {optimizer: cpu}]\nsystem.use: [megatron-lm, deepspeed]\n")
            .empty());
  CHECK(faults("pipeline: [1]\ntensor: [a, 2]\nmicro_batch: 0\nrecompute: [none, some]\n"
               "cluster.use: [dgx-a10]\nparallelism.tensr: [1]\n") ==
        std::vector<std::string>{
            "space:2:10: error: parallelism.tensor is 'a'; expected an integer from 1 to 10000000",
            "space:3:14: error: workload.micro_batch is '0'; expected an integer from 1 to "
            "100000000",
            "space:4:19: error: memory.recompute is 'some'; expected none | selective | full",
            "space:5:15: error: there is no cluster 'dgx-a10'; expected a name in configs/clusters "
            "or a path (did you mean 'dgx-a100'?)",
            "space:6:21: error: unknown key 'tensr'; expected a key of 'parallelism' (did you mean "
            "'tensor'?)"});
}

TEST_CASE("Spaces that say nothing or too much are faults", "[search]") {
  CHECK(fault("tensr: [1, 2]") ==
        "unknown dimension 'tensr'; expected a key of the job such as parallelism.tensor (did you "
        "mean 'tensor'?)");
  CHECK(fault("tensor: []") == "parallelism.tensor has no values; expected at least one");
  CHECK(fault("tensor: [2, 2]") == "2 is given twice; expected each value once");
  CHECK(fault("schedule: powers") ==
        "parallelism.schedule has no divisors; expected a list of values");
  CHECK(fault("offload: [{}]\nmemory.offload.optimizer: [cpu]") ==
        "memory.offload.optimizer and memory.offload set one key; expected one of them");
}

TEST_CASE("The stated job is compared with the best", "[search]") {
  const auto loader = test::loader_of(kJob);
  const auto answer = search::search(request_of("tensor: [1, 8]\nmicro_batch: [1, 2]\n"), loader,
                                     text::data_directory());
  REQUIRE(answer.found);
  CHECK(answer.stated >= answer.best.objective);
  CHECK_THAT(answer.against, Catch::Matchers::StartsWith("the job as given"));
  CHECK(answer.best.overrides.front().starts_with("parallelism.tensor="));  // in the space's order
  CHECK(answer.best.overrides.back().starts_with("workload.micro_batch="));
}
