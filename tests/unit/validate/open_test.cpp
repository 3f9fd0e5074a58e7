// A run that ran although its forecast does not fit: a fault of the forecast, or of what the run
// assumes.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <span>

#include "catch.hpp"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/runs/read.h"
#include "stepcast/text/document.h"
#include "stepcast/validate/compare.h"

namespace {

using namespace stepcast;
namespace fs = std::filesystem;

constexpr const char* kAssumed = R"("memory.recompute": "not stated")";

// Llama-3 8B on 8 H100, with `micro` sequences of 8,192 tokens a micro-batch.
result::ValidationRow row_of(int micro, const char* recompute, const char* assumed,
                             int sequence = 8192) {
  const fs::path file =
      fs::temp_directory_path() / ("stepcast-open-" + std::to_string(::getpid()) + ".jsonl");
  std::ofstream(file) << fmt::format(
      R"({{"id": "one", "job": {{"model": {{"use": "llama-3-8b"}}, "cluster": {{"use": "hgx-h100", "nodes": 1}}, )"
      R"("system": {{"use": "torchtitan"}}, "workload": {{"sequence_length": {}, "global_batch": {}, "micro_batch": {}}}, )"
      R"("parallelism": {{"data": 8}}, "memory": {{"recompute": "{}"}}}}, "measured": {{"step_time": 10}}, "assumed": {{{}}}}})"
      "\n",
      sequence, 8 * micro, micro, recompute, assumed);
  const runs::Run run = runs::read(file).at(0);
  fs::remove(file);
  forecast::Forecaster forecaster(text::data_directory());
  const auto rows = validate::compare(forecaster, std::span(&run, 1)).rows;
  REQUIRE(rows.size() == 1);
  REQUIRE(rows[0].status != "skipped");
  return rows[0];
}

// The micro-batch of a small model whose source states none.
std::int64_t chosen(const std::string& parallelism) {
  const fs::path file =
      fs::temp_directory_path() / ("stepcast-micro-" + std::to_string(::getpid()) + ".jsonl");
  std::ofstream(file) << fmt::format(
      R"({{"id": "one", "job": {{"model": {{"use": "gpt2"}}, "cluster": {{"use": "hgx-h100", "nodes": 1}}, )"
      R"("system": {{"use": "megatron-lm"}}, "workload": {{"sequence_length": 1024, "global_batch": 64}}, )"
      R"("parallelism": {}}}, "measured": {{"step_time": 10}}, )"
      R"("assumed": {{"workload.micro_batch": "not stated"}}}})"
      "\n",
      parallelism);
  const runs::Run run = runs::read(file).at(0);
  fs::remove(file);
  forecast::Forecaster forecaster(text::data_directory());
  const auto forecast = validate::forecast_run(forecaster, run);
  REQUIRE(std::holds_alternative<validate::RunForecast>(forecast));
  return std::get<validate::RunForecast>(forecast).job.workload.micro_batch;
}

}  // namespace

TEST_CASE("an open micro-batch fills memory, but not where fewer of them leave stages idle") {
  CHECK(chosen(R"({"data": 8})") == 8);  // the whole share of a rank
  // Four stages: of 32 sequences, 8 at once would leave them idle for 3 of 7 slots.
  const std::int64_t staged = chosen(R"({"data": 2, "pipeline": 4})");
  CHECK(staged >= 1);
  CHECK(staged < 8);
}

TEST_CASE(
    "a run that fits with full recomputation alone recomputed, where its source says nothing") {
  const auto stated = row_of(4, "full", "");
  REQUIRE(stated.status == "ok");
  const auto open = row_of(4, "none", kAssumed);
  CHECK(open.status == "ok");
  CHECK(open.predicted == stated.predicted);
  REQUIRE(open.open.size() == 1);
  CHECK(open.open[0] == "memory.recompute: not stated; full, since it fits no other way");
  // What fits as it is assumed stays so.
  CHECK(row_of(1, "none", kAssumed).predicted == row_of(1, "none", "").predicted);
}

TEST_CASE("a run whose memory may do without recomputation stays as it is assumed, and is open") {
  // How states are sharded is open as well, which alone may be why the forecast is too large.
  const auto open =
      row_of(1, "none", R"("memory.recompute": "not stated", "parallelism.sharding": "not stated")",
             12288);
  REQUIRE(row_of(1, "full", "", 12288).status == "ok");
  CHECK(open.status == "open");
  CHECK(open.predicted == row_of(1, "none", "", 12288).predicted);
  REQUIRE(open.reason);
  CHECK(open.reason->find("it fits with full recomputation, which the source does not state") !=
        std::string::npos);
}

TEST_CASE("a run that states its recomputation is too large, whatever would fit") {
  CHECK(row_of(4, "none", "").status == "oom");
  CHECK(row_of(4, "none", R"("kernels.attention": "not stated")").status == "oom");
}

TEST_CASE("a run that full recomputation does not make fit is too large") {
  REQUIRE(row_of(64, "full", "").status == "oom");
  CHECK(row_of(64, "none", kAssumed).status == "oom");
  CHECK(row_of(64, "full", kAssumed).status == "oom");
}
