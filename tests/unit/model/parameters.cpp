// Parameter counts compared with the published ones: the number of weights that the HuggingFace hub
// shows for a repository (or that its model card states), reproduced exactly.
#include <cmath>

#include "catch.hpp"
#include "models.h"
#include "stepcast/model/count.h"

using namespace stepcast;
using test::gpt;
using test::llama;
using test::moe;

namespace {

struct Published {
  job::Model model;
  std::int64_t parameters;
};

template <class Change>
job::Model with(job::Model m, Change change) {
  change(m);
  return m;
}

const auto tied = [](job::Model& m) { m.tied_embeddings = true; };
const auto qwen2 = [](job::Model& m) { m.biases.qkv = true; };
const auto qwen3 = [](job::Model& m) {
  m.qk_norm = true;
  m.head_dim = 128;
};

}  // namespace

TEST_CASE("Parameters equal the published counts") {
  const std::vector<Published> published = {
      {gpt("gpt2", 12, 768, 12, 50257, 1024), 124439808},
      {gpt("gpt2-medium", 24, 1024, 16, 50257, 1024), 354823168},
      {gpt("gpt2-large", 36, 1280, 20, 50257, 1024), 774030080},
      {gpt("gpt2-xl", 48, 1600, 25, 50257, 1024), 1557611200},
      // OPT's table has two extra rows before its 2048 positions.
      {gpt("opt-125m", 12, 768, 12, 50272, 2050), 125239296},
      {gpt("opt-6.7b", 32, 4096, 32, 50272, 2050), 6658473984},
      {with(gpt("gpt-j-6b", 28, 4096, 16, 50400, 0),
            [](job::Model& m) {
              m.positions = job::Positions::rotary;
              m.parallel_block = true;
              m.tied_embeddings = false;
              m.biases.qkv = m.biases.attention_out = false;
              m.biases.head = true;
            }),
       6050882784},
      {with(gpt("phi-2", 32, 2560, 32, 51200, 0),
            [](job::Model& m) {
              m.positions = job::Positions::rotary;
              m.parallel_block = true;
              m.tied_embeddings = false;
              m.biases.head = true;
            }),
       2779683840},
      {llama("llama-2-7b", 32, 4096, 32, 32, 11008, 32000), 6738415616},
      {llama("llama-2-13b", 40, 5120, 40, 40, 13824, 32000), 13015864320},
      {llama("llama-65b", 80, 8192, 64, 64, 22016, 32000), 65285660672},
      {llama("llama-2-70b", 80, 8192, 64, 8, 28672, 32000), 68976648192},
      {test::llama3_8b(), 8030261248},
      {test::llama3_70b(), 70553706496},
      {llama("llama-3.1-405b", 126, 16384, 128, 8, 53248, 128256), 405853388800},
      {with(llama("llama-3.2-1b", 16, 2048, 32, 8, 8192, 128256), tied), 1235814400},
      {with(llama("llama-3.2-3b", 28, 3072, 24, 8, 8192, 128256), tied), 3212749824},
      {llama("mistral-7b-v0.1", 32, 4096, 32, 8, 14336, 32000), 7241732096},
      {with(with(llama("qwen2.5-0.5b", 24, 896, 14, 2, 4864, 151936), qwen2), tied), 494032768},
      {with(llama("qwen2.5-7b", 28, 3584, 28, 4, 18944, 152064), qwen2), 7615616512},
      {with(llama("qwen2.5-14b", 48, 5120, 40, 8, 13824, 152064), qwen2), 14770033664},
      {with(llama("qwen2.5-32b", 64, 5120, 40, 8, 27648, 152064), qwen2), 32763876352},
      {with(llama("qwen2.5-72b", 80, 8192, 64, 8, 29568, 152064), qwen2), 72706203648},
      {with(llama("qwen3-8b", 36, 4096, 32, 8, 12288, 151936), qwen3), 8190735360},
      {with(llama("qwen3-32b", 64, 5120, 64, 8, 25600, 151936), qwen3), 32762123264},
      {with(moe(llama("qwen3-30b-a3b", 48, 2048, 32, 4, 6144, 151936), 128, 8, 768), qwen3),
       30532122624},
      {with(moe(llama("qwen3-235b-a22b", 94, 4096, 64, 4, 12288, 151936), 128, 8, 1536), qwen3),
       235093634560},
      {with(with(moe(llama("qwen1.5-moe-a2.7b", 24, 2048, 16, 16, 5632, 151936), 60, 4, 1408),
                 qwen2),
            [](job::Model& m) {
              m.moe->shared_experts = 1;
              m.moe->shared_ffn = 5632;
              m.moe->shared_gate = true;
            }),
       14315784192},
      {test::mixtral_8x7b(), 46702792704},
      {moe(llama("mixtral-8x22b-v0.1", 56, 6144, 48, 8, 16384, 32000), 8, 2, 16384), 140620634112},
      {moe(llama("mixtral-8x22b-instruct-v0.1", 56, 6144, 48, 8, 16384, 32768), 8, 2, 16384),
       140630071296},
      {with(test::deepseek_v2(),
            [](job::Model& m) {
              m.name = "deepseek-v2-lite";
              m.layers = 27;
              m.hidden = 2048;
              m.heads = m.kv_heads = 16;
              m.ffn = 10944;
              m.moe->experts = 64;
              m.moe->ffn = 1408;
              m.mla->q_lora_rank = 0;
            }),
       15706484224},
      {test::deepseek_v2(), 235741434880},
      {test::deepseek_v3(), 671026419200},
  };
  for (const Published& p : published) {
    INFO(p.model.name);
    CHECK(model::count_parameters(p.model).total == p.parameters);
  }
}

TEST_CASE("GPT parameters follow Megatron's formula") {
  // Narayanan et al. (SC21), equation 2: P = 12 l h^2 (1 + 13/12h + (V + s)/12lh), which leaves out
  // the 2 h of the final norm. Billions as printed in table 1.
  struct Row {
    int layers;
    std::int64_t hidden;
    int heads;
    double billions;
  };
  const Row r =
      GENERATE(Row{24, 2304, 24, 1.7}, Row{30, 3072, 32, 3.6}, Row{36, 4096, 32, 7.5},
               Row{40, 6144, 48, 18.4}, Row{48, 8192, 64, 39.1}, Row{60, 10240, 80, 76.1},
               Row{80, 12288, 96, 145.6}, Row{96, 16384, 128, 310.1}, Row{105, 20480, 128, 529.6},
               Row{128, 25600, 160, 1008.0}, Row{96, 12288, 96, 174.6});
  const auto m = gpt("gpt", r.layers, r.hidden, r.heads, 51200, 2048);
  const auto p = model::count_parameters(m);
  const std::int64_t h = r.hidden;
  CHECK(p.total - p.final_norm == 12 * r.layers * h * h + 13 * r.layers * h + (51200 + 2048) * h);
  CHECK(std::abs(static_cast<double>(p.total) / 1e9 - r.billions) <= 0.051);
}

TEST_CASE("Active parameters leave out the experts that a token does not visit") {
  // Mixtral: 46.7 B in total, 12.9 B per token (arXiv 2401.04088); Qwen3-235B-A22B and DeepSeek-V3
  // from their model cards.
  CHECK(model::count_parameters(test::mixtral_8x7b()).active == 12879925248);
  const auto v3 = model::count_parameters(test::deepseek_v3());
  CHECK(std::abs(static_cast<double>(v3.active) / 1e9 - 37.0) < 0.6);
  const auto dense = model::count_parameters(test::llama3_8b());
  CHECK(dense.active == dense.total);
}

TEST_CASE("Parts add up to the total") {
  for (const job::Model& m :
       {test::llama3_70b(), test::deepseek_v3(), gpt("gpt2", 12, 768, 12, 50257, 1024)}) {
    INFO(m.name);
    const auto p = model::count_parameters(m);
    std::int64_t sum = p.embedding + p.head + p.final_norm;
    for (int i = 0; i < m.layers; ++i) {
      sum += model::layer_parameters(m, i);
    }
    CHECK(sum == p.total);
  }
}
