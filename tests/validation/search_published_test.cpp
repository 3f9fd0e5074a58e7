// Every model of Narayanan et al. (SC 2021, table 1) and Korthikanti et al. (2205.05198, table 5):
// the forecast of the strategy that a search finds must be at least as fast as that of the
// published one, and the search must explain why. scripts/search-published prints the table.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <stdexcept>

#include "catch.hpp"
#include "stepcast/runs/read.h"
#include "support/search_space.h"

using namespace stepcast;

namespace {

struct Published {
  const char* file;
  const char* id;
};

// Their pipeline sizes are no powers of two, so the published one is added to the powers. The first
// ten models take at most a second each without sanitizers.
constexpr int kSmall = 10, kAll = 14;
constexpr Published kModels[] = {{"megatron-sc21.jsonl", "megatron-sc21-t1-1.7b"},
                                 {"megatron-sc21.jsonl", "megatron-sc21-t1-3.6b"},
                                 {"megatron-sc21.jsonl", "megatron-sc21-t1-7.5b"},
                                 {"megatron-sc21.jsonl", "megatron-sc21-t1-18.4b"},
                                 {"korthikanti.jsonl", "seqsel-t5-22b-present"},
                                 {"megatron-sc21.jsonl", "megatron-sc21-t1-39.1b"},
                                 {"megatron-sc21.jsonl", "megatron-sc21-t1-76.1b"},
                                 {"megatron-sc21.jsonl", "megatron-sc21-t1-145.6b"},
                                 {"megatron-sc21.jsonl", "megatron-sc21-t1-310.1b"},
                                 {"korthikanti.jsonl", "seqsel-t5-175b-present"},
                                 {"megatron-sc21.jsonl", "megatron-sc21-t1-529.6b"},
                                 {"megatron-sc21.jsonl", "megatron-sc21-t1-1008.0b"},
                                 {"korthikanti.jsonl", "seqsel-t5-530b-present"},
                                 {"korthikanti.jsonl", "seqsel-t5-1t-present"}};

std::string job_of(const Published& one) {
  const auto file = std::filesystem::path(STEPCAST_SOURCE_DIR) / "tests/validation" / one.file;
  return runs::text_of(runs::find(file, one.id), true);
}

// Powers of two, and the published size.
std::string sizes(int most, int published) {
  std::vector<int> out;
  for (int n = 1; n <= most; n *= 2) {
    out.push_back(n);
  }
  if (std::find(out.begin(), out.end(), published) == out.end()) {
    out.push_back(published);
  }
  return fmt::format("[{}]", fmt::join(out, ", "));
}

void match_or_beat(const Published& one) {
  const std::string job = job_of(one);
  const job::Job given = config::parse(job, "job").job;
  const auto& p = given.parallelism;
  const auto inner = test::loader_of(job);
  const search::JobLoader loader = [&](const std::vector<std::string>& more) {
    auto all = more;
    all.insert(all.begin(), "parallelism.data=auto");  // the run states its own
    return inner(all);
  };
  search::Request request;
  request.space = test::space_of(
      fmt::format("tensor: [1, 2, 4, 8]\npipeline: {}\nvirtual_pipeline: {}\nmicro_batch: {}\n"
                  "recompute: [none, selective, full]\n",
                  sizes(64, p.pipeline), sizes(2, p.virtual_pipeline),
                  sizes(4, static_cast<int>(given.workload.micro_batch))),
      job);
  request.front.clear();
  const char* limit = std::getenv("STEPCAST_SEARCH_LIMIT");  // seconds per model
  request.time_limit = limit == nullptr ? 0 : std::atof(limit);
  const auto start = std::chrono::steady_clock::now();
  const auto answer = search::search(request, loader, text::data_directory());
  const std::string published =
      fmt::format("tensor={} pipeline={} virtual_pipeline={} micro_batch={}", p.tensor, p.pipeline,
                  p.virtual_pipeline, given.workload.micro_batch);
  fmt::print(
      "{}\n  published {}: {:.3f} s\n  found     {}: {:.3f} s, gap {:.2f} %{}, {:.0f} s\n  {}\n  "
      "{}\n",
      one.id, published, answer.stated, fmt::join(answer.best.overrides, " "),
      answer.best.objective, 100 * answer.gap, answer.stopped ? ", stopped" : "",
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
      answer.against, answer.why);
  std::fflush(stdout);
  REQUIRE(answer.found);
  REQUIRE(answer.stated > 0);
  INFO(one.id << ": " << answer.best.objective << " against " << answer.stated);
  CHECK(answer.best.objective <= answer.stated);
  CHECK_THAT(answer.against, ContainsSubstring(" of ") || ContainsSubstring("is as good"));
}

}  // namespace

TEST_CASE("Published strategies are matched or beaten, and the difference explained",
          "[validation]") {
  for (int n = 0; n < kSmall; ++n) {
    DYNAMIC_SECTION(kModels[n].id) { match_or_beat(kModels[n]); }
  }
}

// These take ten seconds each, and minutes under sanitizers: scripts/search-published runs all of
// them, or one by name.
TEST_CASE("Published strategies of large models are matched or beaten", "[.][large]") {
  for (int n = kSmall; n < kAll; ++n) {
    DYNAMIC_SECTION(kModels[n].id) { match_or_beat(kModels[n]); }
  }
}
