// One path: a job that is written by hand gets the forecast that its published run was judged by.
#include <span>

#include "catch.hpp"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/runs/read.h"
#include "stepcast/text/document.h"
#include "stepcast/text/map.h"
#include "stepcast/validate/compare.h"

using namespace stepcast;

TEST_CASE("jobs by hand are forecast as the published runs of the same configuration") {
  const std::string folder = std::string(STEPCAST_SOURCE_DIR) + "/tests/validation/";
  const text::Value file = text::read_yaml(folder + "by-hand.yaml");
  REQUIRE(file.items.size() == 10);
  forecast::Forecaster forecaster(text::data_directory());
  for (const text::Value& entry : file.items) {
    const text::Value& named = text::need(entry, "run");
    const runs::Run published = runs::find(folder + text::to_string(text::need(named, "file")),
                                           text::to_string(text::need(named, "id")));
    runs::Run by_hand = published;
    by_hand.document = text::need(entry, "job");
    const auto wanted = validate::compare(forecaster, std::span(&published, 1)).rows;
    const auto rows = validate::compare(forecaster, std::span(&by_hand, 1)).rows;
    INFO(published.id);
    REQUIRE(rows.size() == wanted.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      INFO(rows[i].metric);
      CHECK(rows[i].status == wanted[i].status);
      CHECK(rows[i].predicted == wanted[i].predicted);
      CHECK(rows[i].low == wanted[i].low);
      CHECK(rows[i].high == wanted[i].high);
    }
  }
}
