// Every model in configs/models: its graphs are sound, add up to the closed forms, and have the
// published parameters.
#include <map>

#include "catch.hpp"
#include "stepcast/config/config.h"
#include "stepcast/model/count.h"
#include "stepcast/model/operators.h"

using namespace stepcast;

namespace {

// Totals of the weights published on the HuggingFace hub; GPT-3-like ones by Megatron's formula are
// in parameters.cpp.
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
};

std::int64_t parameters(const model::OperatorGraph& g) {
  std::int64_t sum = 0;
  for (const auto& op : g.operators) {
    sum += op.parameters;
  }
  return sum;
}

}  // namespace

TEST_CASE("Models of configs/models count what was published") {
  int compared = 0;
  for (const std::string& name : config::list("models")) {
    INFO(name);
    const job::Model m = config::model(name);
    const auto counted = model::count_parameters(m);
    model::Shard one;
    one.sequence_length = 128;
    const model::Style style;
    REQUIRE_FALSE(model::check_shard(m, one));
    std::int64_t sum = parameters(model::build_embedding(m, one, style)) +
                       parameters(model::build_head(m, one, style));
    for (int i = 0; i < m.layers; ++i) {
      sum += parameters(model::build_layer(m, model::layer_kind(m, i), one, style));
    }
    if (m.tied_embeddings) {
      sum -= m.vocab * m.hidden;
    }
    CHECK(sum == counted.total);
    const auto known = published.find(name);
    if (known == published.end()) {
      continue;
    }
    ++compared;
    CHECK(counted.total == known->second);
  }
  CHECK(compared >= 2);
}
