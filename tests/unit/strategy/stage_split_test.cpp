// How frameworks cut layers into stages: numbers that their own functions give.
#include <numeric>
#include <string>
#include <variant>
#include <vector>

#include "catch.hpp"
#include "stepcast/config/config.h"
#include "stepcast/strategy/plan.h"

using namespace stepcast;

namespace {

using Layers = std::vector<int>;

struct Cut {
  std::string split;
  int layers = 0;
  int stages = 1;
  bool ends = false;  // embedding and output layer count
  int chunks = 1;     // per rank
  int vocab = 1024;
};

std::variant<strategy::Plan, Infeasible> plan_of(const Cut& cut) {
  const std::string job = "model: {layers: " + std::to_string(cut.layers) +
                          ", hidden: 3072, heads: 32, kv_heads: 32, head_dim: 96, ffn: 8192, "
                          "gated_mlp: true, positions: rotary, vocab: " +
                          std::to_string(cut.vocab) +
                          "}\ncluster: {use: dgx-h100, nodes: 12}\n"
                          "workload: {sequence_length: 512, global_batch: 960}\n";
  std::vector<std::string> keys = {"parallelism.pipeline=" + std::to_string(cut.stages),
                                   "parallelism.virtual_pipeline=" + std::to_string(cut.chunks),
                                   "parallelism.layers_per_stage=" + cut.split};
  if (cut.ends) {
    keys.insert(keys.end(),
                {"parallelism.embedding_as_layer=true", "parallelism.loss_as_layer=true"});
  }
  return strategy::resolve(config::parse(job, "job.yaml", keys).job);
}

// In model order.
Layers layers_of(const Cut& cut) {
  auto plan = plan_of(cut);
  if (const auto* why = std::get_if<Infeasible>(&plan)) {
    FAIL(cut.split << ": " << why->key << ": " << why->reason);
  }
  Layers out(static_cast<std::size_t>(cut.stages * cut.chunks));
  for (const auto& rank : std::get<strategy::Plan>(plan).stages) {
    for (const auto& chunk : rank) {
      out[chunk.stage] = chunk.layers;
    }
  }
  CHECK(std::accumulate(out.begin(), out.end(), 0) == cut.layers);
  return out;
}

}  // namespace

TEST_CASE("what does not divide lies where the framework puts it") {
  CHECK(layers_of({"remainder_first", 10, 4}) == Layers{3, 3, 2, 2});
  CHECK(layers_of({"remainder_last", 10, 4}) == Layers{2, 2, 3, 3});
  CHECK(layers_of({"remainder_middle", 10, 4}) == Layers{2, 3, 3, 2});
  // torchtitan: 32 + 2 layers on 4 stages, embedding and output layer one each.
  CHECK(layers_of({"remainder_first", 32, 4, true}) == Layers{8, 9, 8, 7});
  CHECK(layers_of({"remainder_first", 32, 4, true, 2}) == Layers{4, 5, 4, 4, 4, 4, 4, 3});
  // InternEvo: each of two chunks of 15 layers by itself.
  CHECK(layers_of({"remainder_last", 30, 4, false, 2}) == Layers{3, 4, 4, 4, 3, 4, 4, 4});
}

TEST_CASE("DeepSpeed balances layers, or parameters with the table at both ends") {
  CHECK(layers_of({"balanced", 30, 8}) == Layers{4, 4, 4, 4, 4, 4, 3, 3});
  CHECK(layers_of({"balanced", 70, 12}) == Layers{6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 5, 5});
  CHECK(layers_of({"balanced", 70, 12, true}) == Layers{5, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 5});
  // A table of 131,072 rows is as much as 3.6 layers.
  CHECK(layers_of({"balanced_parameters", 28, 4, false, 1, 131072}) == Layers{5, 9, 9, 5});
}

// Column layers_last of 2411.05288's artifact (sail-sg/VocabularyParallelism @6191c3bf,
// artifact/exp_one_host.csv), and the passes' times there, which say how many layers the others
// have.
TEST_CASE("redistributed layers lie where the authors' runs had them") {
  const auto layers = [](int vocab, int sequence) {
    const auto plan = strategy::resolve(
        config::parse("model: {layers: 32, hidden: 3072, heads: 24, ffn: 12288, gated_mlp: false, "
                      "biases: true, vocab: " +
                          std::to_string(vocab) +
                          "}\ncluster: {use: dgx-a100, nodes: 1}\n"
                          "workload: {sequence_length: " +
                          std::to_string(sequence) + ", global_batch: 128, micro_batch: 1}\n",
                      "job.yaml",
                      {"parallelism.pipeline=8", "parallelism.layers_per_stage=redistribute"})
            .job);
    Layers out;
    for (const auto& rank : std::get<strategy::Plan>(plan).stages) {
      out.push_back(rank.front().layers);
    }
    return out;
  };
  CHECK(layers(32000, 2048) == Layers{4, 4, 4, 4, 4, 4, 4, 4});
  CHECK(layers(128000, 2048) == Layers{4, 4, 4, 4, 4, 5, 5, 2});
  CHECK(layers(256000, 2048) == Layers{4, 4, 4, 5, 5, 5, 5, 0});
  CHECK(layers(32000, 4096) == Layers{4, 4, 4, 4, 4, 4, 4, 4});
  CHECK(layers(64000, 4096) == Layers{4, 4, 4, 4, 4, 4, 5, 3});
  CHECK(layers(128000, 4096) == Layers{4, 4, 4, 4, 4, 5, 5, 2});
}

TEST_CASE("nanotron closes a stage behind the block that passes its share") {
  CHECK(layers_of({"cumulative", 28, 2, false, 1, 131072}) == Layers{16, 12});
  CHECK(layers_of({"cumulative", 28, 8, false, 1, 131072}) == Layers{4, 4, 4, 4, 4, 4, 4, 0});
  CHECK(layers_of({"cumulative", 28, 4, false, 1, 1024}) == Layers{8, 7, 7, 6});
}

TEST_CASE("without a rule, layers that do not divide are refused") {
  const auto plan = plan_of({"even", 10, 4});
  REQUIRE(std::holds_alternative<Infeasible>(plan));
  CHECK(std::get<Infeasible>(plan).key == "parallelism.pipeline");
}

TEST_CASE("on unlike devices redistribute gives each stage layers in proportion to its speed") {
  const auto layers = [](const std::string& split, int first) {
    const auto plan = strategy::resolve(
        config::parse("model: {use: llama-2-13b, vocab: 128}\ncluster: {use: dgx-h100, nodes: 4, "
                      "overrides: [{first: " +
                          std::to_string(first) +
                          ", count: 2, device: a100-sxm-80}]}\nworkload: {sequence_length: 4096, "
                          "global_batch: 256, micro_batch: 1}\n",
                      "job.yaml",
                      {"parallelism.tensor=8", "parallelism.pipeline=4",
                       "parallelism.layers_per_stage=" + split})
            .job);
    Layers out;
    for (const auto& rank : std::get<strategy::Plan>(plan).stages) {
      out.push_back(rank.front().layers);
    }
    return out;
  };
  // 989.4 and 312 TFLOP/s: of 40 layers, 20 x 989.4 / 1301.4 = 15.2 on a fast stage, 4.8 on a slow
  // one.
  CHECK(layers("redistribute", 2) == Layers{15, 15, 5, 5});
  CHECK(layers("redistribute", 0) == Layers{5, 5, 15, 15});
  CHECK(layers("even", 2) == Layers{10, 10, 10, 10});
}
