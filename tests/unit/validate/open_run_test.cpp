// Runs whose source leaves something open that decides whether they fit.
#include <string>

#include "catch.hpp"
#include "stepcast/forecast/open_job.h"
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

TEST_CASE("recomputation that is not listed as assumed stays") {
  const auto known = forecast_of(32, R"("recompute": "none")", "");
  CHECK(known.job.memory.recompute.kind == Kind::none);
  CHECK_FALSE(known.report.fits);
  // Naming the key opens it, whatever value the job gives it.
  CHECK(forecast_of(32, R"("recompute": "none")", kOpen).report.fits);
}

TEST_CASE("a job of a user's own gets what a run gets") {
  const auto run = forecast_of(32, "", kOpen);
  job::Job job = forecast_of(32, "", "").job;
  job.assumed = {"memory.recompute"};
  forecast::Forecaster forecaster(STEPCAST_SOURCE_DIR);
  const forecast::Settled settled = forecast::settled(forecaster, job);
  CHECK_FALSE(settled.note.empty());
  const auto report = forecaster.forecast(settled.job);
  REQUIRE(std::holds_alternative<result::Report>(report));
  CHECK(std::get<result::Report>(report).step_time.value == run.report.step_time.value);
  CHECK(forecast::settled(forecaster, run.job).note.empty());
}

TEST_CASE("where even more does not help, the framework's default stands") {
  const auto far = forecast_of(4096, "", kOpen);
  CHECK_FALSE(far.report.fits);
  CHECK(far.job.memory.recompute.kind == Kind::none);
}
