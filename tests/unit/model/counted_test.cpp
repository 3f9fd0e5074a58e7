// What transformers counts (counted.tsv, written by counted.py): each of its families by the
// config.json that it writes itself.
#include <filesystem>
#include <fstream>

#include "catch.hpp"
#include "stepcast/config/config.h"
#include "stepcast/model/count.h"
#include "stepcast/model/operators.h"
#include "stepcast/strategy/rules.h"

using namespace stepcast;

namespace {

std::int64_t parameters(const model::OperatorGraph& g) {
  std::int64_t sum = 0;
  for (const auto& op : g.operators) {
    sum += g.kind.repeats ? 0 : op.parameters;
  }
  return sum;
}

std::int64_t of_graphs(const job::Model& m) {
  model::Shard one;
  one.sequence_length = 128;
  const model::Style style;
  REQUIRE_FALSE(strategy::shard_fault(m, one));
  std::int64_t sum = parameters(model::build_embedding(m, one, style)) +
                     parameters(model::build_head(m, one, style));
  for (int i = 0; i < model::layer_count(m); ++i) {
    sum += parameters(model::build_layer(m, model::layer_kind(m, i), one, style));
  }
  return m.tied_embeddings ? sum - m.vocab * m.hidden : sum;
}

}  // namespace

TEST_CASE("Families of transformers have as many parameters as transformers counts") {
  std::ifstream file(STEPCAST_SOURCE_DIR "/tests/unit/model/counted.tsv");
  const auto config = std::filesystem::temp_directory_path() / "stepcast_counted_test.json";
  std::int64_t counted = 0;
  std::string text;
  int models = 0;
  while (file >> counted && std::getline(file, text)) {
    INFO(text);
    std::ofstream(config) << text;
    const job::Model m = config::model(config.string());
    CHECK(model::count_parameters(m).total == counted);
    CHECK(of_graphs(m) == counted);
    ++models;
  }
  CHECK(models > 150);
}
