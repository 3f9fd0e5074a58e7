// A site fitted to Megatron-LM's published runs on up to 256 GPUs (arXiv 2104.04473, table 1), and
// checked on those from 512 to 3,072.
#include "stepcast/calibrate/runs.h"

#include "catch.hpp"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/report/report.h"
#include "stepcast/runs/read.h"
#include "stepcast/text/document.h"
#include "stepcast/validate/measured_step.h"

using namespace stepcast;

TEST_CASE("runs on few GPUs sharpen forecasts of many: Megatron-LM, SC21") {
  const auto data = text::data_directory();
  forecast::Forecaster forecaster(data);
  std::vector<result::MeasuredStep> few;
  calibrate::SiteOptions options;
  for (const auto& run : runs::read(STEPCAST_SOURCE_DIR "/tests/validation/megatron-sc21.jsonl")) {
    auto step = validate::measured_step(forecaster, run);
    auto* measured = std::get_if<result::MeasuredStep>(&step);
    REQUIRE(measured != nullptr);
    auto& to = measured->job.cluster.ranks() <= 256 ? few : options.check;
    to.push_back(std::move(*measured));
  }
  REQUIRE(few.size() == 4);
  REQUIRE(options.check.size() == 6);
  const auto found = calibrate::calibrate_runs(few, options, data);
  INFO(report::terminal(found, false));
  CHECK(found.refused.empty());
  CHECK(found.check_after.median < 0.7 * found.check_before.median);
  CHECK(found.check_after.median < 0.04);
  CHECK(found.covered_after >= 0.8);
}
