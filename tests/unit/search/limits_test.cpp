// The job as given is evaluated first; and the result of a search that reaches its time limit.
#include <filesystem>

#include "catch.hpp"
#include "search/runner.h"
#include "search/stated.h"
#include "stepcast/search/jobs.h"
#include "stepcast/store/store.h"
#include "support/folder.h"
#include "support/search_space.h"

using namespace stepcast;

namespace {

const std::string kJob =
    "model: {layers: 8, hidden: 1024, heads: 16, kv_heads: 16, head_dim: 64, ffn: 4096, vocab: "
    "32000}\n"
    "cluster: {use: dgx-a100, nodes: 2}\n"
    "system: megatron-lm\n"
    "workload: {sequence_length: 2048, global_batch: 64}\n"
    "parallelism: {tensor: 2, pipeline: 2, sharding: zero1}\n"
    "memory: {recompute: {every: 2}}\n";
const std::string kSpace =
    "cluster.order: [tp-cp-ep-dp-pp, tp-cp-ep-pp-dp]\n"
    "tensor: [1, 2, 4]\npipeline: [1, 2]\nmicro_batch: [1, 2]\nsharding: [none, zero1]\n"
    "recompute: [none, {every: 2}, full]\noffload: [{}, {activations: cpu}]\n";

search::Request request_of(const std::string& space, const std::string& job = kJob) {
  search::Request out;
  out.space = test::space_of(space, job);
  out.front.clear();
  return out;
}

const std::filesystem::path& data() {
  static const std::filesystem::path at = text::data_directory();
  return at;
}

}  // namespace

TEST_CASE("Combinations and their places in the list are one to one", "[search]") {
  const auto request = request_of(kSpace);
  forecast::Forecaster forecaster(data());
  search::Enumerated all =
      search::enumerate(request, test::loader_of(kJob), forecaster, search::kMoreMemory);
  REQUIRE(all.items.size() > 100);
  for (std::size_t i = 0; i < all.items.size(); i += 7) {
    CHECK(search::place_of(all, all.overrides(all.items[i])) == i);
  }
  auto foreign = all.overrides(all.items.front());
  foreign.back() = "memory.offload={optimizer: cpu}";
  CHECK_FALSE(search::place_of(all, foreign));
}

TEST_CASE("The job as given is found in its space, and only there", "[search]") {
  const auto loader = test::loader_of(kJob);
  const auto here = search::stated_combination(request_of(kSpace).space, loader);
  REQUIRE(here);
  const std::vector<std::string> expected = {"cluster.order=tp-cp-ep-dp-pp",
                                             "parallelism.tensor=2",
                                             "parallelism.pipeline=2",
                                             "workload.micro_batch=1",
                                             "parallelism.sharding=zero1",
                                             "memory.recompute={every: 2}",
                                             "memory.offload={}"};
  CHECK(*here == expected);
  const std::string beside = GENERATE("tensor: [1, 4]\n", "recompute: [none, {every: 3}]\n",
                                      "offload: [{activations: cpu}]\n", "cluster.nodes: [1, 4]\n");
  CHECK_FALSE(search::stated_combination(request_of(beside).space, loader));
}

TEST_CASE("Out of time, a search answers with the job as given", "[search]") {
  // The job is outside of its space, or inside it.
  const std::string space = GENERATE(std::string("tensor: [4, 8]\n"), kSpace);
  const test::Folder folder;
  store::Store store("--store", folder.file("a.db"), "1");
  auto request = request_of(space);
  request.store = &store;
  request.store_key = "job";
  const auto loader = test::loader_of(kJob);
  const result::Search whole = search::search(request, loader, data());
  REQUIRE(whole.found);
  CHECK_FALSE(whole.stopped);
  CHECK(whole.gap == 0);
  request.time_limit = 1e-9;
  const result::Search cut = search::search(request, loader, data());
  CHECK(cut.stopped);
  REQUIRE(cut.found);
  CHECK(cut.best.objective == whole.stated);
  CHECK(cut.best.overrides.empty() == (space != kSpace));
  CHECK(cut.gap == 1);  // nothing has been bounded
  CHECK(cut.counts.candidates == whole.counts.candidates);
  // If the store has no evaluation of it, nothing is known.
  request.store = nullptr;
  const result::Search none = search::search(request, loader, data());
  CHECK(none.stopped);
  CHECK_FALSE(none.found);
  CHECK_THAT(none.nearest, ContainsSubstring("time"));
}

TEST_CASE("What computes ends where it is asked to", "[search]") {
  forecast::Forecaster forecaster(data());
  const auto job = std::get<job::Job>(test::loader_of(kJob)({}));
  Stop stop;
  forecast::Options options;
  options.stop = &stop;
  CHECK_NOTHROW(forecaster.forecast(job, options));
  stop.ask();
  CHECK_THROWS_AS(forecaster.forecast(job, options), Stopped);
  const Stop late(Stop::Clock::now());
  options.stop = &late;
  CHECK_THROWS_AS(forecaster.forecast(job, options), Stopped);
}

TEST_CASE("A job that its space repairs is searched, one that it does not is refused", "[search]") {
  const test::Folder folder;
  std::string wrong = kJob;
  wrong.replace(wrong.find("tensor: 2"), 9, "tensor: 3");
  const std::string file = folder.write("job.yaml", wrong);
  const auto space_of = [](const std::string& yaml) {
    return [=](const job::Job& job) {
      return search::read_space(text::parse_yaml(yaml, "space"), job);
    };
  };
  const auto repairs = space_of("pipeline: powers\ntensor: [8, 4]\n");
  const config::Loaded base = search::base_of(file, {}, repairs);
  CHECK(base.job.parallelism.tensor == 8);
  CHECK_THROWS_AS(search::base_of(file, {}, space_of("pipeline: powers\n")), InputError);

  search::Request request;
  request.space = repairs(base.job);
  request.front.clear();
  const auto answer = search::search(request, search::jobs_of(file, {}), data());
  REQUIRE(answer.found);
  CHECK(answer.gap == 0);
  CHECK(answer.stated == 0);
  CHECK_THAT(answer.against, Catch::Matchers::StartsWith("the job as given is not valid") &&
                                 ContainsSubstring("tensor"));
}
