#include "published.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "catch.hpp"
#include "stepcast/runs/read.h"
#include "stepcast/text/document.h"
#include "stepcast/validate/compare.h"

namespace stepcast::test {
namespace {

const std::string kFolder = std::string(STEPCAST_SOURCE_DIR) + "/tests/validation/";

const text::Value& bands() {
  static const text::Value all = text::read_yaml(kFolder + "bands.yaml");
  return all;
}

}  // namespace

const result::Validation& forecasts_of(const std::string& file) {
  static forecast::Forecaster forecaster(text::data_directory());
  static std::map<std::string, result::Validation> known;
  auto at = known.find(file);
  if (at == known.end()) {
    at = known.emplace(file, validate::compare(forecaster, runs::read(kFolder + file))).first;
  }
  return at->second;
}

void check_bands(const std::string& file) {
  const text::Value* of_file = bands().find(file);
  INFO(file << ": regenerate with scripts/validation-bands");
  REQUIRE(of_file != nullptr);
  std::size_t found = 0;
  for (const result::ValidationSummary& s : forecasts_of(file).summary) {
    INFO(s.metric << ", worst row " << s.worst_id);
    if (s.simulated == 0) {
      continue;
    }
    const text::Value* band = of_file->find(s.metric);
    REQUIRE(band != nullptr);
    ++found;
    fmt::print("{:<34} {:<14} mean {:>5.1f} % of at most {:>5.1f} %, {} rows\n", file, s.metric,
               100 * s.mean, 100 * text::to_number(*band->find("at_most")), s.simulated);
    CHECK(s.mean <= text::to_number(*band->find("at_most")));
    CHECK(s.simulated >= text::to_number(*band->find("rows")));
  }
  CHECK(found == of_file->entries.size());  // every band has rows
}

}  // namespace stepcast::test
