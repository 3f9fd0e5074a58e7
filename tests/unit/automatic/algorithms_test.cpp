// AHP with the engine: layers over different devices, and its answer compared with the exact one.
#include "stepcast/automatic/algorithms.h"

#include <algorithm>

#include "catch.hpp"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/input/input.h"
#include "stepcast/text/document.h"

namespace stepcast::automatic {
namespace {

// Two stages of one node each, the second on slower devices; 8 layers.
constexpr const char* kTwoSpeeds =
    "model: {name: small, layers: 8, hidden: 2048, heads: 16, ffn: 8192, vocab: 32000}\n"
    "cluster: {use: dgx-h100, nodes: 2, overrides: [{first: 1, count: 1, device: a100-sxm-80}]}\n"
    "system: {use: torchtitan, layer_overhead: 0, unit_overhead: 0}\n"
    "workload: {sequence_length: 2048, global_batch: 32, micro_batch: 1}\n"
    "parallelism: {tensor: 4, pipeline: 2}\n";

search::JobLoader loader_of(const std::string& yaml) {
  return [yaml](const std::vector<std::string>& overrides) -> std::variant<job::Job, Infeasible> {
    try {
      return input::parse(yaml, "job.yaml", overrides).job;
    } catch (const InputError& error) {
      return Infeasible{to_string(error.faults().front().where), error.faults().front().message};
    }
  };
}

result::AlgorithmAnswer answer(const std::string& yaml, const std::string& space,
                               AlgorithmRequest::Degrees degrees, std::uint64_t seed = 1,
                               const std::vector<std::string>& fixed = {
                                   "workload.micro_batches=even"}) {
  const search::JobLoader loader = loader_of(yaml);
  const auto base = std::get<job::Job>(loader({}));
  search::Request request;
  request.space = search::read_space(text::parse_yaml(space, "space.yaml"), base);
  request.threads = 1;
  AlgorithmRequest asked;
  asked.names = {"ahp"};
  asked.degrees = degrees;
  asked.seed = seed;
  asked.fixed = {"parallelism.sharding=none", "parallelism.schedule=1f1b",
                 "parallelism.sequence_parallel=false"};
  asked.fixed.insert(asked.fixed.end(), fixed.begin(), fixed.end());
  return run_algorithms(request, asked, base, loader, text::data_directory()).answers.front();
}

TEST_CASE("on two speeds uneven layers beat even ones, and no other cut is faster") {
  forecast::Forecaster forecaster(text::data_directory());
  const search::JobLoader loader = loader_of(kTwoSpeeds);
  const auto step = [&](int first) {
    const auto job =
        std::get<job::Job>(loader({"parallelism.layers_per_stage=[" + std::to_string(first) + ", " +
                                   std::to_string(8 - first) + "]"}));
    return std::get<result::Report>(forecaster.forecast(job)).step_time.value;
  };
  double least = step(1);
  for (int first = 2; first < 8; ++first) {
    least = std::min(least, step(first));
  }
  const auto found = answer(kTwoSpeeds, "micro_batch: [1]\n", AlgorithmRequest::Degrees::exact);
  REQUIRE(found.found);
  CHECK(found.strategy.step_time.value == least);
  CHECK(least < step(4));
  REQUIRE(found.steps.size() == 6);
  CHECK(!found.operators.empty());
}

TEST_CASE("on two speeds unlike batches beat even ones, and no other shares are faster") {
  const std::string yaml =
      "model: {name: small, layers: 8, hidden: 2048, heads: 16, ffn: 8192, vocab: 32000}\n"
      "cluster: {use: dgx-h100, nodes: 2, overrides: [{first: 1, count: 1, device: a100-sxm-80}]}\n"
      "system: megatron-lm\n"
      "workload: {sequence_length: 2048, global_batch: 24, micro_batch: 1}\n"
      "parallelism: {tensor: 8, sharding: none}\n";
  forecast::Forecaster forecaster(text::data_directory());
  const search::JobLoader loader = loader_of(yaml);
  const auto step = [&](int first) {
    const auto job = std::get<job::Job>(loader({"workload.micro_batches=[" + std::to_string(first) +
                                                ", " + std::to_string(24 - first) + "]"}));
    return std::get<result::Report>(forecaster.forecast(job)).step_time.value;
  };
  double least = step(1);
  for (int first = 2; first < 24; ++first) {
    least = std::min(least, step(first));
  }
  const auto found = answer(yaml, "micro_batch: [1]\n", AlgorithmRequest::Degrees::exact, 1, {});
  REQUIRE(found.found);
  CHECK(found.strategy.step_time.value == least);
  CHECK(least < step(12));
  const auto& text = found.strategy.overrides;
  CHECK(std::any_of(text.begin(), text.end(), [](const std::string& one) {
    return one.starts_with("workload.micro_batches={");
  }));
  CHECK(found.steps.back().decision.find("micro-batches {") != std::string::npos);
}

TEST_CASE("random searches of degrees come within 5 % of the exact one over seeds") {
  const std::string space =
      "tensor: [1, 2, 4, 8]\npipeline: [1, 2, 4]\nmicro_batch: [1, 2, 4]\nrecompute: [none, "
      "full]\n";
  const auto exact = answer(kTwoSpeeds, space, AlgorithmRequest::Degrees::exact);
  REQUIRE(exact.found);
  for (const auto degrees :
       {AlgorithmRequest::Degrees::evolutionary, AlgorithmRequest::Degrees::annealing}) {
    for (const std::uint64_t seed : {1, 2, 3}) {
      const auto found = answer(kTwoSpeeds, space, degrees, seed);
      REQUIRE(found.found);
      CHECK(found.strategy.fits);
      CHECK(found.strategy.objective <= 1.05 * exact.strategy.objective);
    }
  }
}

}  // namespace
}  // namespace stepcast::automatic
