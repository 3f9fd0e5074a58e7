// Runs whose source leaves something open that decides whether they fit.
#include <string>

#include "catch.hpp"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/runs/read.h"
#include "stepcast/validate/compare.h"
#include "support/folder.h"

using namespace stepcast;

namespace {

// A batch of `micro_batch` sequences on one GPU: saved activations fill the memory.
validate::RunForecast forecast_of(int micro_batch, const std::string& memory,
                                  const std::string& assumed) {
  const test::Folder folder;
  const auto runs = runs::read(folder.write(
      "runs.jsonl",
      R"({"job": {"model": {"layers": 16, "hidden": 2048, "heads": 16, "ffn": 8192, "vocab": 32000},)"
      R"( "cluster": {"use": "dgx-h100", "nodes": 1, "gpus_per_node": 1}, "system": "megatron-lm",)"
      R"( "workload": {"sequence_length": 4096, "global_batch": )" +
          std::to_string(micro_batch) + R"(, "micro_batch": )" + std::to_string(micro_batch) +
          R"(}, "memory": {)" + memory + R"(}}, "measured": {"step_time": 1}, "assumed": {)" +
          assumed + "}}\n"));
  forecast::Forecaster forecaster(STEPCAST_SOURCE_DIR);
  auto out = validate::forecast_run(forecaster, runs.front());
  REQUIRE(std::holds_alternative<validate::RunForecast>(out));
  return std::get<validate::RunForecast>(std::move(out));
}

using Kind = job::Recompute::Kind;
const std::string kOpen = R"("memory.recompute": "the framework's default")";

}  // namespace

TEST_CASE("open recomputation is the framework's default while that fits, and more where not") {
  CHECK(forecast_of(1, "", kOpen).job.memory.recompute.kind == Kind::none);
  const auto larger = forecast_of(32, "", kOpen);
  CHECK(larger.job.memory.recompute.kind == Kind::full);
  CHECK(larger.report.fits);
}

TEST_CASE("recomputation that a run states, or does not leave open, stays") {
  const auto stated = forecast_of(32, R"("recompute": "none")", kOpen);
  CHECK(stated.job.memory.recompute.kind == Kind::none);
  CHECK_FALSE(stated.report.fits);
  CHECK(forecast_of(32, "", "").job.memory.recompute.kind == Kind::none);
}

TEST_CASE("where even more does not help, the framework's default stands") {
  const auto far = forecast_of(4096, "", kOpen);
  CHECK_FALSE(far.report.fits);
  CHECK(far.job.memory.recompute.kind == Kind::none);
}
