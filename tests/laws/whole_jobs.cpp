// Whole jobs that once broke a law: their forecasts, by every fidelity.
#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "catch.hpp"
#include "stepcast/config/config.h"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/input/input.h"
#include "stepcast/text/document.h"

using namespace stepcast;

namespace {

using Outcome = std::variant<result::Report, Infeasible>;

Outcome outcome_of(const std::string& text, const std::vector<std::string>& overrides = {},
                   forecast::Fidelity fidelity = forecast::Fidelity::folded) {
  forecast::Options options;
  options.fidelity = fidelity;
  forecast::Forecaster forecaster(text::data_directory());
  return forecaster.forecast(input::parse(text, "job", overrides).job, options);
}

result::Report report_of(const std::string& text, const std::vector<std::string>& overrides = {},
                         forecast::Fidelity fidelity = forecast::Fidelity::folded) {
  const Outcome outcome = outcome_of(text, overrides, fidelity);
  if (const auto* why = std::get_if<Infeasible>(&outcome)) {
    FAIL(why->key << ": " << why->reason);
  }
  return std::get<result::Report>(outcome);
}

}  // namespace

TEST_CASE("A bound is below folded, and folded is full, on every grid of tensor ranks", "[laws]") {
  // The bound took all ranks of the grid for its side: each rank would then hold too little of a
  // layer in memory, and gather it too often in time.
  const std::string tiny =
      "model: {layers: 1, hidden: 4, heads: 4, vocab: 6}\n"
      "cluster: {use: hgx-h100-fat-tree-3, nodes: 1}\n"
      "parallelism: {tensor: 4, tensor_kind: 2d}\n"
      "workload: {sequence_length: 2, global_batch: 12, micro_batch: 2}\n";
  const std::string large =
      "model: llama-7b\n"
      "cluster: {use: dgx-a100, nodes: 1}\n"
      "system: colossal-ai\n"
      "workload: {sequence_length: 2048, global_batch: 16, micro_batch: 4}\n";
  struct Grid {
    const char* kind;
    int tensor;
    int depth;
  };
  std::vector<std::pair<std::string, std::vector<std::string>>> jobs = {{tiny, {}}};
  for (const Grid grid :
       {Grid{"2d", 4, 1}, Grid{"2.5d", 4, 1}, Grid{"2.5d", 8, 2}, Grid{"3d", 8, 1}}) {
    jobs.push_back({large,
                    {fmt::format("parallelism.tensor={}", grid.tensor),
                     fmt::format("parallelism.tensor_kind={}", grid.kind),
                     fmt::format("parallelism.tensor_depth={}", grid.depth)}});
  }
  for (const auto& [text, overrides] : jobs) {
    INFO(text << fmt::format("{}", fmt::join(overrides, " ")));
    const auto bound = report_of(text, overrides, forecast::Fidelity::bound);
    const auto folded = report_of(text, overrides);
    const auto full = report_of(text, overrides, forecast::Fidelity::full);
    CHECK(bound.step_time.value <= folded.step_time.value);
    // Products, and what they wait for, are most of the step.
    CHECK(bound.step_time.value >= 0.8 * folded.step_time.value);
    CHECK(bound.peak.value <= folded.peak.value);
    CHECK(folded.step_time.value == full.step_time.value);
  }
}

TEST_CASE("Without pipeline stages nobody waits for one", "[laws]") {
  // A slow link keeps some ranks from the gradient norm, in which the others wait for them.
  const auto report = report_of(
      "model: {layers: 1, hidden: 2, heads: 2, vocab: 3}\n"
      "cluster: {use: dgx-h200, nodes: 1, faults: [{link: node0/gpu1, bandwidth: 0.5}]}\n"
      "parallelism: {tensor: 2}\n"
      "workload: {sequence_length: 1, global_batch: 4}\n");
  CHECK(report.bubble_fraction == 0);
  CHECK(report.breakdown.front().bubble == Time(0));
  CHECK(report.breakdown.front().stall > Time(0));
}

TEST_CASE("2.5-d tensor parallelism of depth 1 is 2-d", "[laws]") {
  const std::string text =
      "model: llama-7b\n"
      "cluster: {use: dgx-a100, nodes: 1}\n"
      "system: colossal-ai\n"
      "workload: {sequence_length: 2048, global_batch: 16, micro_batch: 4}\n"
      "parallelism: {tensor: 4}\n";
  const auto flat = report_of(text, {"parallelism.tensor_kind=2d"});
  const auto deep = report_of(text, {"parallelism.tensor_kind=2.5d"});
  CHECK(deep.step_time.value == flat.step_time.value);
  CHECK(deep.peak.value == flat.peak.value);
}

TEST_CASE("A what-if on a rate scales what was measured, and says so", "[laws]") {
  const std::string text =
      "model: llama-3-8b\n"
      "cluster: {use: dgx-h200, nodes: 4}\n"
      "system: megatron-lm\n"
      "workload: {sequence_length: 4096, global_batch: 32, micro_batch: 1}\n"
      "parallelism: {tensor: 2, sequence_parallel: true}\n";
  const auto says = [](const result::Report& report, const std::string& part) {
    return std::any_of(report.notes.begin(), report.notes.end(), [&](const std::string& note) {
      return note.find(part) != std::string::npos;
    });
  };
  // Another rate once dropped the file that was fitted to this fabric, so that NICs twice as fast
  // were a third slower.
  const auto stated = report_of(text);
  CHECK_FALSE(says(stated, "scaled"));
  double slower = report_of(text, {"cluster.node.nic=200 Gb/s"}).step_time.value;
  for (const char* rate : {"390 Gb/s", "400 Gb/s", "430 Gb/s", "800 Gb/s", "1600 Gb/s"}) {
    const auto report = report_of(text, {std::string("cluster.node.nic=") + rate});
    INFO(rate);
    CHECK(report.step_time.value <= slower);
    slower = report.step_time.value;
  }
  const auto doubled = report_of(text, {"cluster.node.nic=800 Gb/s"});
  CHECK(doubled.step_time.value < 0.98 * stated.step_time.value);
  CHECK(says(doubled, "measured with NICs of 50 GB/s, scaled to 100 GB/s"));

  // Twice the peak once halved the MFU and nothing else.
  const auto fast = report_of(text, {"cluster.device.peak.bf16=1978 TFLOP/s"});
  CHECK(fast.step_time.value < 0.8 * stated.step_time.value);
  CHECK(fast.breakdown.front().compute < stated.breakdown.front().compute);
  CHECK(says(fast, "their rates scaled to 1.978 PFLOP/s"));
  // Less is known of it.
  const auto width = [](const result::Estimate& e) { return (e.high - e.low) / e.value; };
  CHECK(width(fast.step_time) > width(stated.step_time));

  // Measured products read weights at the memory's rate of old, whatever the job stated.
  const std::string narrow =
      "model: llama-3.2-3b\ncluster: {use: aws-p4de, nodes: 1}\n"
      "workload: {sequence_length: 1, global_batch: 8}\n";
  const auto one_token = report_of(narrow);
  const auto wide = report_of(narrow, {"cluster.device.memory_bandwidth=4078 GB/s"});
  CHECK(wide.breakdown.front().compute < 0.7 * one_token.breakdown.front().compute);
  CHECK(says(wide, "their traffic scaled to 4.078 TB/s"));

  // A link twice as fast once left copies to the device as they were measured, beside which those
  // to the host, which nobody measured, were slower than before.
  const std::string offloaded = narrow + "memory: {offload: {gradients: cpu}}\n";
  const auto copied = report_of(offloaded);
  const auto faster = report_of(offloaded, {"cluster.device.pcie=63 GB/s"});
  CHECK(faster.step_time.value < copied.step_time.value);
  CHECK(says(faster, "copies measured with a host link of 31.5 GB/s, their rates scaled to 63"));
}

TEST_CASE("Waits of streams hold memory and take no time", "[laws]") {
  const std::string text =
      "model: llama-3.2-1b\ncluster: {use: dgx-h100, nodes: 1}\nsystem: pytorch-fsdp1\n"
      "workload: {sequence_length: 4096, global_batch: 16}\n";
  const auto waits = report_of(text);
  const auto at_once = report_of(text, {"memory.stream_waits=false"});
  CHECK(at_once.step_time.value == waits.step_time.value);
  const auto& held = waits.memory.front();
  const auto& least = at_once.memory.front();
  CHECK(least.allocated == held.allocated);
  // FSDP1's gathered parameters are used on the compute stream and freed on that of gathers.
  CHECK(least.reserved < held.reserved);
}

TEST_CASE("Steps up to the end of time have a forecast, longer ones a reason", "[laws]") {
  const std::string text =
      "model: {layers: 4, hidden: 512, heads: 8, ffn: 1024, vocab: 32000}\n"
      "cluster: {use: dgx-h100, nodes: 2}\n"
      "workload: {sequence_length: 512, global_batch: 32, micro_batch: 1}\n"
      "parallelism: {tensor: 2, pipeline: 2, sequence_parallel: true}\n";
  // Both sides of the limit, so that neither a wrap to a small time nor an early refusal passes.
  double slowest = 0;
  bool refused = false;
  for (double rate = 1e6; rate >= 1; rate /= 10) {
    job::Job job = input::parse(text, "job").job;
    job.cluster.device.nvlink = Bandwidth(rate);
    forecast::Forecaster forecaster(text::data_directory());
    const auto outcome = forecaster.forecast(job);
    if (const auto* report = std::get_if<result::Report>(&outcome)) {
      CHECK_FALSE(refused);
      CHECK(report->step_time.value > slowest);
      slowest = report->step_time.value;
    } else {
      refused = true;
      CHECK_THAT(std::get<Infeasible>(outcome).reason, ContainsSubstring("64-bit picoseconds"));
    }
  }
  CHECK(refused);
  CHECK(slowest > 1e5);
}

TEST_CASE("States in too many pieces have a reason that names the size of a piece", "[laws]") {
  const std::string text =
      "model: llama-3-8b\ncluster: {use: dgx-h100, nodes: 1}\n"
      "workload: {sequence_length: 1024, global_batch: 16}\nparallelism: {sharding: zero3}\n"
      "memory: {offload: {parameters: cpu, optimizer: cpu}}\n";
  for (const std::string key : {"memory.offload.chunk", "memory.offload.page"}) {
    const job::Job job = input::parse(text, "job", {key + "=1"}).job;
    forecast::Forecaster forecaster(text::data_directory());
    const auto outcome = forecaster.forecast(job);
    REQUIRE(std::holds_alternative<Infeasible>(outcome));
    CHECK(std::get<Infeasible>(outcome).key == key);
    CHECK_THAT(std::get<Infeasible>(outcome).reason, ContainsSubstring("more than a forecast"));
  }
}

TEST_CASE("A job that no memory holds has a reason that names the key", "[laws]") {
  const std::string text =
      "model: llama-3-8b\n"
      "cluster: {use: dgx-h100, nodes: 1}\n"
      "workload: {sequence_length: 512, global_batch: 8}\n"
      "parallelism: {tensor: 2}\n";
  const auto key_of = [&](const std::vector<std::string>& overrides) {
    const Outcome outcome = outcome_of(text, overrides);
    const auto* why = std::get_if<Infeasible>(&outcome);
    return why != nullptr ? why->key : std::string("none");
  };
  CHECK(key_of({}) == "none");
  CHECK(key_of({"workload.global_batch=4e6"}) == "workload.global_batch");  // units of a stage
  CHECK(key_of({"workload.global_batch=1e8"}) == "workload.global_batch");  // the order itself
  CHECK(key_of({"model.layers=1e4", "workload.global_batch=4000"}) == "model.layers");
}

TEST_CASE("No system's pipeline of fewer micro-batches than stages waits for itself", "[laws]") {
  int ran = 0;
  for (const std::string& system : config::list("systems")) {
    if (!config::system_alias(system).empty()) {
      continue;
    }
    for (const auto& [stages, micro_batches] : {std::pair(4, 2), std::pair(8, 5)}) {
      const std::string text = fmt::format(
          "model: {{layers: 8, hidden: 128, heads: 2, vocab: 256}}\n"
          "cluster: {{use: dgx-a100, nodes: 1, gpus_per_node: {}}}\n"
          "system: {}\n"
          "workload: {{sequence_length: 16, global_batch: {}, micro_batch: 1, precision: bf16}}\n"
          "parallelism: {{data: 1, pipeline: {}}}\n",
          stages, system, micro_batches, stages);
      INFO(text);
      try {
        const Outcome outcome = outcome_of(text);
        const auto* why = std::get_if<Infeasible>(&outcome);
        CHECK((why == nullptr || why->reason.find("deadlock") == std::string::npos));
        ran += why == nullptr ? 1 : 0;
      } catch (const InputError&) {  // what the system cannot run
      }
    }
  }
  CHECK(ran > 40);
}
