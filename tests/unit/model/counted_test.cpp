// What transformers counts (counted.tsv, written by counted.py): each of its families by the
// config.json that it writes itself.
#include <filesystem>
#include <fstream>

#include "catch.hpp"
#include "graph_parameters.h"
#include "stepcast/config/config.h"
#include "stepcast/model/count.h"

using namespace stepcast;

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
    CHECK(parameters_of_graphs(m) == counted);
    ++models;
  }
  CHECK(models > 150);
}
