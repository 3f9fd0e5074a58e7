// Searches compared with published layouts: the chosen layout must be as good in the measurements,
// and its forecast as fast as that of the authors' choice.
#include <fmt/format.h>

#include <fstream>
#include <limits>
#include <map>
#include <stdexcept>

#include "catch.hpp"
#include "stepcast/runs/read.h"
#include "support/search_space.h"

using namespace stepcast;

namespace {

const std::filesystem::path kFolder =
    std::filesystem::path(STEPCAST_SOURCE_DIR) / "tests/validation";

// The job of one committed run, as YAML.
std::string job_of(const std::string& file, const std::string& id) {
  return runs::text_of(runs::find(kFolder / file, id), true);
}

std::string value_of(const std::vector<std::string>& overrides, const std::string& key) {
  for (const std::string& text : overrides) {
    if (text.starts_with(key + "=")) {
      return text.substr(key.size() + 1);
    }
  }
  return "";
}

// Seconds by layout of one implementation, "micro_batch,tensor,pipeline,recompute"; 0: it ran out
// of memory.
using Measured = std::map<std::string, double>;

Measured measured(const std::string& attention, bool fused_norm) {
  std::ifstream file(kFolder / "aleph-alpha-layouts.csv");
  Measured out;
  const std::string of = fmt::format(",{},{},", attention, fused_norm);
  for (std::string line; std::getline(file, line);) {
    if (const auto at = line.find(of); at != std::string::npos && line[0] != '#') {
      const std::string seconds = line.substr(at + of.size());
      out[line.substr(0, at)] = seconds == "oom" ? 0 : std::stod(seconds);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("LLaMA-13B on 64 A100: of the measured layouts the chosen one is within 3 % of the best",
          "[validation]") {
  // Each implementation and recomputation by itself, then the best of them all. Where it does not
  // hold, the test says so: pipelines of two stages without the RMS kernel are forecast too fast.
  struct Case {
    bool fused_norm;
    const char* recompute;
    bool holds;
  };
  const std::string job = job_of("aleph-alpha.jsonl", "aleph-13b-s2048-64g-132184");
  double forecast_best = std::numeric_limits<double>::infinity();
  double chosen = 0, best = std::numeric_limits<double>::infinity();
  for (const auto& [fused_norm, recompute, holds] :
       {Case{true, "none", true}, Case{false, "none", false}, Case{false, "full", true}}) {
    const std::vector<std::string> fixed = {fmt::format("system.fused_norm={}", fused_norm),
                                            "kernels.attention=flash2", "parallelism.data=auto",
                                            fmt::format("memory.recompute={}", recompute)};
    const auto inner = test::loader_of(job);
    const search::JobLoader loader = [&](const std::vector<std::string>& more) {
      auto all = fixed;
      all.insert(all.end(), more.begin(), more.end());
      return inner(all);
    };
    search::Request request;
    request.space =
        test::space_of("tensor: [1, 2]\npipeline: [1, 2]\nmicro_batch: [1, 2, 4, 8]\n", job);
    request.front.clear();
    const auto answer = search::search(request, loader, text::data_directory());
    REQUIRE(answer.found);
    const Measured all = measured("flash2", fused_norm);
    const auto& o = answer.best.overrides;
    const std::string layout = fmt::format("{},{},{},{}", value_of(o, "workload.micro_batch"),
                                           value_of(o, "parallelism.tensor"),
                                           value_of(o, "parallelism.pipeline"), recompute);
    INFO(recompute << " " << fused_norm << ": " << layout << " forecast " << answer.best.objective);
    REQUIRE(all.contains(layout));
    const double took = all.at(layout);
    REQUIRE(took > 0);  // it did not run out of memory
    double least = std::numeric_limits<double>::infinity();
    for (const auto& [one, seconds] : all) {
      if (seconds > 0 && one.ends_with(recompute)) {
        least = std::min(least, seconds);
      }
    }
    CHECK((took <= 1.03 * least) == holds);
    best = std::min(best, least);
    if (answer.best.objective < forecast_best) {
      forecast_best = answer.best.objective;
      chosen = took;
    }
  }
  CHECK(chosen <= 1.03 * best);
}

TEST_CASE("What a search finds is at least as fast in forecast as what was published",
          "[validation]") {
  const auto [file, id] = GENERATE(std::pair("megatron-sc21.jsonl", "megatron-sc21-t1-18.4b"),
                                   std::pair("korthikanti.jsonl", "seqsel-t5-22b-full"));
  const std::string job = job_of(file, id);
  const auto inner = test::loader_of(job);
  const search::JobLoader loader = [&](const std::vector<std::string>& more) {
    auto all = more;
    all.insert(all.begin(), "parallelism.data=auto");  // the run states its own
    return inner(all);
  };
  search::Request request;
  request.space = test::space_of(
      "tensor: {powers: 8}\npipeline: {powers: 8}\nvirtual_pipeline: [1, 2]\n"
      "micro_batch: {powers: 8}\nrecompute: [none, selective, full]\n",
      job);
  request.front.clear();
  const auto answer = search::search(request, loader, text::data_directory());
  REQUIRE(answer.found);
  CHECK(answer.gap == 0);
  REQUIRE(answer.stated > 0);
  INFO(id << ": " << answer.best.objective << " against " << answer.stated);
  CHECK(answer.best.objective <= answer.stated);
  CHECK_THAT(answer.against, ContainsSubstring(" of ") || ContainsSubstring("is as good"));
}
