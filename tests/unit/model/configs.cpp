// Every model in configs/models: its graphs are valid, add up to the closed forms, and have the
// published number of parameters.
#include <map>
#include <vector>

#include "catch.hpp"
#include "graph_parameters.h"
#include "stepcast/config/config.h"
#include "stepcast/model/count.h"
#include "stepcast/model/operators.h"

using namespace stepcast;

namespace {

// Number of weights published on the HuggingFace hub. Models like GPT-3, counted by Megatron's
// formula, are in parameters.cpp.
const std::map<std::string, std::int64_t> published = {
    {"gpt2", 124439808},
    {"gpt2-medium", 354823168},
    {"gpt2-large", 774030080},
    {"gpt2-xl", 1557611200},
    {"gpt-j-6b", 6050882784},
    {"opt-125m", 125239296},
    {"opt-6.7b", 6658473984},
    {"llama-7b", 6738415616},
    {"llama-13b", 13015864320},
    {"llama-65b", 65285660672},
    {"llama-2-7b", 6738415616},
    {"llama-2-13b", 13015864320},
    {"llama-2-70b", 68976648192},
    {"llama-3-8b", 8030261248},
    {"llama-3-70b", 70553706496},
    {"llama-3.1-8b", 8030261248},
    {"llama-3.1-70b", 70553706496},
    {"llama-3.1-405b", 405853388800},
    {"llama-3.2-1b", 1235814400},
    {"llama-3.2-3b", 3212749824},
    {"llama-3.3-70b", 70553706496},
    {"tiny-llama-1.1b", 1100048384},
    {"phi-1.5", 1418270720},
    {"phi-2", 2779683840},
    {"phi-3-mini", 3821079552},
    {"phi-4", 14659507200},
    {"qwen2-0.5b", 494032768},
    {"qwen2-1.5b", 1543714304},
    {"qwen2-7b", 7615616512},
    {"qwen2.5-1.5b", 1543714304},
    {"qwen2.5-3b", 3085938688},
    {"gemma-7b", 8537680896},
    {"code-llama-7b", 6738546688},
    {"stablelm-base-alpha-3b", 3637321728},
    {"gemma-2b", 2506172416},
    {"mistral-7b", 7241732096},
    {"mixtral-8x7b", 46702792704},
    {"mixtral-8x22b", 140620634112},
    {"qwen2.5-0.5b", 494032768},
    {"qwen2.5-7b", 7615616512},
    {"qwen2.5-14b", 14770033664},
    {"qwen2.5-32b", 32763876352},
    {"qwen2.5-72b", 72706203648},
    {"qwen3-8b", 8190735360},
    {"qwen3-32b", 32762123264},
    {"qwen3-30b-a3b", 30532122624},
    {"qwen3-235b-a22b", 235093634560},
    {"deepseek-v2-lite", 15706484224},
    {"deepseek-v2", 235741434880},
    {"deepseek-v3", 671026419200},
    {"deepseek-r1", 671026419200},
    {"bert-base", 109514298},  // with the head that predicts masked words
    {"bert-large", 335174458},
    {"bloom-176b", 176247271424},
    {"chatglm3-6b", 6243584000},
    {"gemma-2-2b", 2614341888},
    {"gemma-2-9b", 9241705984},
    {"gemma-2-27b", 27227128320},
    {"gpt-neo-125m", 125198592},
    {"gpt-neo-1.3b", 1315575808},
    {"gpt-neo-2.7b", 2651307520},
    {"gpt-neox-20b", 20554567680},
    {"gpt-oss-20b", 20914757184},
    {"gpt-oss-120b", 116829156672},
    {"mistral-7b-v0.1", 7241732096},
    {"nemotron-3-nano-30b-a3b", 31577940288},
    {"qwen3-next-80b-a3b", 79674391296},
    {"t5-3b", 2851598336},
    {"t5-11b", 11307321344},
    // The language model as transformers 5.23.0 makes it from the config.json, on the device "meta"
    // (MiniMax M3: with its buffers of the router's biases).
    {"gemma-4-26b-a4b", 25233141760},
    {"minimax-m3", 426174572928},
    // The same by transformers 5.24.0, with buffers of the routers' biases.
    {"deepseek-v4-flash", 284332230231 + 40 * 256},
    {"deepseek-v4-pro", 1572997179491 + 58 * 384},
    // The same by nemo-automodel 0.7.0.
    {"kimi-k3", 2779484393568 + 92 * 896},
};

// Billions of parameters as model cards state them.
struct Rounded {
  const char* name;
  double total;
  double active;  // without the embedding's table if `tables` are excluded; 0: not stated
  bool tables = true;
};
const std::vector<Rounded> rounded = {
    {"gpt-oss-20b", 20.9, 3.6, false},
    {"gpt-oss-120b", 116.8, 5.1, false},
    {"gemma-3-4b", 3.88, 0},
    {"gemma-3-27b", 27.0, 0},
    {"nemotron-h-56b", 56.3, 0},
    {"nemotron-3-nano-30b-a3b", 31.6, 3.6},
    {"nemotron-3-super-120b-a12b", 120.7, 0},
    {"nemotron-3.5-lightning-30b-a3b", 31.6, 3.6},
    {"nemotron-3-ultra-550b-a55b", 550, 55, false},
    {"llama-4-scout", 107.8, 17.2},
    {"llama-4-maverick", 400.7, 17.2},
    {"kimi-k2-instruct", 1026, 32.9},
    {"kimi-linear-48b-a3b", 49.1, 3.5},
    {"mimo-v2-flash", 309, 15.4},
    {"gemma-4-26b-a4b", 25.2, 3.8},
    {"llama-3.3-nemotron-super-49b-v1", 49.9, 0},
};

}  // namespace

TEST_CASE("Models of configs/models count what was published") {
  int compared = 0;
  for (const std::string& name : config::list("models")) {
    INFO(name);
    const job::Model m = config::model(name);
    const auto counted = model::count_parameters(m);
    CHECK(parameters_of_graphs(m) == counted.total);
    const auto known = published.find(name);
    if (known == published.end()) {
      continue;
    }
    ++compared;
    CHECK(counted.total == known->second);
  }
  CHECK(compared >= 2);
}

TEST_CASE("Model cards' billions") {
  for (const Rounded& r : rounded) {
    INFO(r.name);
    const auto counted = model::count_parameters(config::model(r.name));
    CHECK(static_cast<double>(counted.total) / 1e9 == Approx(r.total).epsilon(0.003));
    const std::int64_t left_out = r.tables ? 0 : counted.embedding;
    if (r.active > 0) {
      CHECK(static_cast<double>(counted.active - left_out) / 1e9 == Approx(r.active).epsilon(0.01));
    }
  }
}

TEST_CASE("FLOPs of layers with keys as values, of unlike widths, and of chosen blocks, by hand") {
  const double s = 8192;
  const auto flops = [&](const char* name) {
    return model::forward_flops(config::model(name), 8192, true).count();
  };
  {  // Gemma 4: every sixth layer has 16 + 2 heads of 512, the others 16 + 2 x 8 of 256.
    const double h = 2816;
    const double global = h * (16 + 2) * 512 + 16 * 512 * h;
    const double window = h * (16 + 2 * 8) * 256 + 16 * 256 * h;
    const double mlps = 3 * h * 2112 + 8 * 3 * h * 704 + 128 * h;
    const double scores =
        5 * (s * s / 2) * 16 * 2 * 512 + 25 * (s * 1024 - 1024.0 * 1024 / 2) * 16 * 2 * 256;
    const double weights = 5 * global + 25 * window + 30 * mlps + 262144 * h;
    CHECK(flops("gemma-4-26b-a4b") == Approx(2 * (s * weights + scores)).epsilon(1e-12));
  }
  {  // Llama-Nemotron: 49 of 80 layers have attention, and MLPs are a tenth to all of 28672 wide.
    const double h = 8192;
    const double attention = 49 * (2 * h * h + 2 * h * 1024);
    const double widths =
        49 * 28672.0 + 6 * 14336.0 + 17920.0 + 10 * 7168.0 + 8 * 5632.0 + 6 * 2816.0;
    const double scores = 49 * (s * s / 2) * 64 * 2 * 128;
    const double weights = attention + 3 * h * widths + 128256 * h;
    CHECK(flops("llama-3.3-nemotron-super-49b-v1") ==
          Approx(2 * (s * weights + scores)).epsilon(1e-12));
  }
  {  // MiniMax-M3: 57 of 60 layers attend to 16 blocks of 128 keys, which 4 heads of 128 choose.
    const double h = 6144;
    const double attention = 60 * (2 * h * 64 * 128 + 2 * h * 4 * 128);
    const double indexers = 57 * h * (4 + 1) * 128;
    const double mlps = 3 * 3 * h * 12288 + 57 * (5 * 3 * h * 3072 + 128 * h);
    const double scores = (3 * (s * s / 2) + 57 * (s * 2048 - 2048.0 * 2048 / 2)) * 64 * 2 * 128;
    const double chosen = 57 * (s * s / 2) * 4 * 128;
    const double weights = attention + indexers + mlps + 200064 * h;
    CHECK(flops("minimax-m3") == Approx(2 * (s * weights + scores + chosen)).epsilon(1e-12));
  }
}

// nemo-automodel 0.7.0, components/models/deepseek_v4/flops.py, model_flops without prediction
// layers.
TEST_CASE("FLOPs of a step of DeepSeek-V4 are those that NeMo AutoModel counts") {
  const auto step = [](const char* name, std::int64_t s) {
    return model::step_flops(config::model(name), s, 1, model::FlopConvention::megatron_causal)
        .count();
  };
  CHECK(step("deepseek-v4-flash", 4096) == Approx(345452247515136.0).epsilon(1e-12));
  CHECK(step("deepseek-v4-flash", 100000) == Approx(9245657798148096.0).epsilon(1e-12));
  CHECK(step("deepseek-v4-pro", 8192) == Approx(2594029921370112.0).epsilon(1e-12));
}

// As transformers 5.24.0 makes it on the device "meta".
TEST_CASE("Layers' embeddings and shared keys of Gemma 4 count what transformers makes") {
  const job::Job small = config::parse(
                             "model: {use: tests/faulty/parts/gemma-4-small.json, vision: null}\n"
                             "cluster: {use: dgx-h100, nodes: 1}\n"
                             "workload: {sequence_length: 4096, global_batch: 8}\n",
                             std::string(STEPCAST_SOURCE_DIR) + "/job.yaml")
                             .job;
  CHECK(model::count_parameters(small.model).total == 27129701888);
}

TEST_CASE("Graphs of configs/models compute what the closed forms count") {
  model::Shard one;
  one.sequence_length = 8192;  // longer than every window except Llama 4's chunks
  model::Style style;
  style.widest_fused_head = 0;  // unfused attention computes the masked half too
  for (const std::string& name : config::list("models")) {
    INFO(name);
    const job::Model m = config::model(name);
    double sum = 0;
    const auto add = [&](const model::OperatorGraph& g) {
      for (const auto& op : g.operators) {
        sum += op.forward.count();
      }
    };
    add(model::build_embedding(m, one, style));
    add(model::build_head(m, one, style));
    for (int i = 0; i < model::layer_count(m); ++i) {
      add(model::build_layer(m, model::layer_kind(m, i), one, style));
    }
    CHECK(sum == Approx(model::forward_flops(m, 8192, true).count()).epsilon(1e-9));
  }
}
