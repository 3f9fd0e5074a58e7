// Measured overlap and launch curves in whole forecasts: they change the step by the right amount,
// and the folded simulation equals the full one.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "catch.hpp"
#include "stepcast/config/config.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/text/document.h"

using namespace stepcast;

namespace {

std::string written(const std::string& name, const std::string& content) {
  const auto folder = std::filesystem::temp_directory_path() / "stepcast-kernel-curves";
  std::filesystem::create_directories(folder);
  const auto file = folder / name;
  std::filesystem::remove(file);
  std::ofstream(file, std::ios::binary) << content;
  return file.string();
}

std::string head(const std::string& kind) {
  return "kind: " + kind +
         "\ndevices: [a100-sxm-80]\nlibrary: any\nsource: \"measured here\"\ncurves:\n";
}

// A job whose gradient reduction overlaps the backward pass.
job::Job overlapped(const std::vector<std::string>& calibration) {
  job::Job job = config::parse(
                     "model: {layers: 8, hidden: 2048, heads: 16, kv_heads: 16, head_dim: 128, "
                     "ffn: 8192, vocab: 32000, max_positions: 1024}\n"
                     "cluster: {use: dgx-a100, nodes: 4}\n"
                     "system: megatron-lm\n"
                     "workload: {sequence_length: 1024, global_batch: 64, micro_batch: 1}\n"
                     "parallelism: {tensor: 2, pipeline: 2, sharding: zero1, overlap: "
                     "{grad_reduce: true, param_gather: true}}\n",
                     "overlapped")
                     .job;
  job.calibration = calibration;
  return job;
}

result::Report made(const job::Job& job, forecast::Fidelity fidelity) {
  forecast::Forecaster forecaster(text::data_directory());
  auto out = forecaster.forecast(job, {fidelity});
  REQUIRE(std::holds_alternative<result::Report>(out));
  return std::get<result::Report>(std::move(out));
}

double slowed(const result::Report& r) {
  double sum = 0;
  for (const auto& stage : r.breakdown) {
    sum += to_seconds(stage.slowdown);
  }
  return sum;
}

std::string overlap_file(const std::string& name, double coefficient) {
  const std::string c = std::to_string(coefficient);
  return written(name, head("overlap") + "  arithmetic: {coefficient: " + c +
                           ", residual: 0.1, points: 9}\n  memory: {coefficient: " + c +
                           ", residual: 0.1, points: 9}\n");
}

}  // namespace

TEST_CASE("measured overlap scales what kernels lose; the folded world is the full one") {
  const auto published = made(overlapped({}), forecast::Fidelity::folded);
  REQUIRE(slowed(published) > 0);
  double before = -1;
  for (const double coefficient : {0.0, 0.5, 1.0, 2.0}) {
    const auto file = overlap_file("overlap-" + std::to_string(coefficient) + ".yaml", coefficient);
    const auto job = overlapped({"auto", file});
    const auto folded = made(job, forecast::Fidelity::folded);
    const auto full = made(job, forecast::Fidelity::full);
    INFO("coefficient " << coefficient);
    CHECK(folded.step_time.value == full.step_time.value);
    CHECK(slowed(folded) > before);
    if (coefficient == 0.0) {
      CHECK(slowed(folded) == 0);
    }
    if (coefficient == 1.0) {  // the same as the published law, but with less uncertainty
      CHECK(folded.step_time.value == published.step_time.value);
      CHECK(folded.step_time.high - folded.step_time.low <
            published.step_time.high - published.step_time.low);
    }
    if (coefficient > 0) {
      CHECK(std::any_of(folded.calibration.begin(), folded.calibration.end(),
                        [](const auto& use) { return use.provenance == "measured here"; }));
    }
    before = slowed(folded);
  }
}

TEST_CASE("a measured launch is a floor of the framework's, and the rate of a CUDA graph") {
  const auto slow =
      written("launch.yaml", head("launch") + "  host: 1e-4\n  graph: 5e-5\n  residual: 0.05\n");
  const auto quick =
      written("launch-quick.yaml", head("launch") + "  host: 1e-7\n  residual: 0.05\n");
  const auto step = [](job::Job job) {
    return made(job, forecast::Fidelity::folded).step_time.value;
  };
  const double usual = step(overlapped({}));
  CHECK(step(overlapped({"auto", quick})) == usual);
  CHECK(step(overlapped({"auto", slow})) > 1.5 * usual);
  auto graph = overlapped({});
  graph.kernels.cuda_graph = true;
  const double free = step(graph);
  CHECK(free <= usual);
  graph.calibration = {"auto", slow};
  CHECK(step(graph) > free);
  CHECK(step(graph) < step(overlapped({"auto", slow})));
}
