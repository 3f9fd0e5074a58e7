// A written job file reads back as the same job and states only what the original stated.
#include "stepcast/config/job_file.h"

#include "catch.hpp"

using namespace stepcast;

namespace {

std::string again(const config::Loaded& loaded) {
  return config::to_json(config::parse(config::job_file(loaded), "again.yaml").job);
}

}  // namespace

TEST_CASE("Every ready job of configs/ gives itself again, with any key changed") {
  for (const std::string& name : config::list("jobs")) {
    for (const std::vector<std::string>& overrides : std::vector<std::vector<std::string>>{
             {},
             {"cluster.faults=[{link: node0/nic1, bandwidth: 0.5}]", "memory.recompute=full"},
             {"system.launch=4 us", "kernels.cuda_graph=true", "nccl.algo=Ring"},
             {"memory.offload={optimizer: {to: cpu, ratio: 0.5}}", "seed=9"},
             {"cluster.device.power=500 W", "workload.tokens=1e12"},
             {"model={use: gemma-2-2b, layers: 24}", "workload.global_batch=16384",
              "parallelism.virtual_pipeline=1", "parallelism.pipeline=1", "parallelism.tensor=1",
              "parallelism.layers_per_stage=[]", "parallelism.sequence_parallel=false"}}) {
      INFO(name << " " << (overrides.empty() ? "" : overrides.front()));
      const config::Loaded loaded = config::load(name, overrides);
      CHECK(again(loaded) == config::to_json(loaded.job));
    }
  }
}

TEST_CASE("A job file holds what was stated and leaves presets to their names") {
  const config::Loaded loaded = config::parse(
      "model: {use: llama-3-8b, layers: 16}\n"
      "cluster: dgx-h100\n"
      "system: torchtitan\n"
      "workload: {sequence_length: 8192, global_batch: 32}\n",
      "job.yaml", {"cluster.nodes=2", "memory.recompute={every: 3}"});
  CHECK(config::job_file(loaded) ==
        "model: {use: llama-3-8b, layers: 16}\n"
        "cluster: {use: dgx-h100, nodes: 2}\n"
        "system: torchtitan\n"
        "workload:\n"
        "  sequence_length: 8192\n"
        "  global_batch: 32\n"
        "memory:\n"
        "  recompute: {every: 3}\n");
}

TEST_CASE("Unlike batches are kept as they were stated, even ones are not named") {
  const char* text =
      "model: llama-3-8b\n"
      "cluster: {use: dgx-h100, nodes: 2, overrides: [{first: 1, count: 1, device: a100-sxm-80}]}\n"
      "workload: {sequence_length: 8192, global_batch: 16}\n"
      "parallelism: {tensor: 8}\n";
  const auto with = [&](const std::string& value) {
    return config::parse(text, "job.yaml", {"workload.micro_batches=" + value});
  };
  const config::Loaded listed = with("[12, 4]");
  CHECK(listed.job.workload.micro_batches.ranks == std::vector<int>{12, 4});
  CHECK(config::job_file(listed).find("  micro_batches: [12, 4]\n") != std::string::npos);
  CHECK(again(listed) == config::to_json(listed.job));
  const config::Loaded named = with("{h100-sxm: 12, a100-sxm-80: 4}");
  CHECK(config::job_file(named).find("  micro_batches: {a100-sxm-80: 4, h100-sxm: 12}\n") !=
        std::string::npos);
  CHECK(again(named) == config::to_json(named.job));
  const config::Loaded even = with("even");
  CHECK(config::to_json(even.job) == config::to_json(config::parse(text, "job.yaml").job));
  REQUIRE(config::differences(listed.job, even.job).size() == 1);
  CHECK(config::differences(listed.job, even.job).front().key == "workload.micro_batches");
}

TEST_CASE("A job without a system, and parts that configs/ does not have") {
  const config::Loaded loaded = config::parse(
      "model: {layers: 4, hidden: 512, heads: 8, vocab: 1000}\n"
      "cluster: {nodes: 1, node: hgx-h100, device: h100-sxm, fabric: none}\n"
      "workload: {sequence_length: 512, global_batch: 8}\n"
      "parallelism: {schedule: zb_h1, pipeline: 2}\n",
      "job.yaml");
  CHECK(again(loaded) == config::to_json(loaded.job));
  CHECK(config::job_file(loaded).find("system:") == std::string::npos);
}

TEST_CASE("Differences are the keys that differ, and not two spellings of one thing") {
  const job::Job job = config::load("llama70b").job;
  CHECK(config::differences(job, job).empty());
  job::Job other = job;
  other.parallelism.tensor = 4;
  other.parallelism.pipeline = 8;
  other.memory.recompute.kind = job::Recompute::Kind::full;
  const auto found = config::differences(job, other);
  REQUIRE(found.size() == 3);
  CHECK(found[0].key == "parallelism.tensor");
  CHECK(found[0].wanted == "8");
  CHECK(found[0].found == "4");
  CHECK(found[2].key == "memory.recompute");

  other = job;
  other.parallelism.data = 16;
  other.parallelism.shard_size = 16;
  other.parallelism.schedule.emplace();
  other.parallelism.schedule->name = "interleaved_1f1b";
  CHECK(config::differences(job, other).empty());
  other.parallelism.schedule->name = "1f1b";
  CHECK(config::differences(job, other).size() == 1);
  other = config::load("mixtral-8x7b").job;
  job::Job dense = other;
  dense.model.moe.reset();
  CHECK(config::differences(dense, other).front().key == "model.moe");
}
