// `simulate export` as a process: the command that it prints gives the same forecast.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "run.h"

using stepcast::test::check_refused;
using stepcast::test::Result;
using stepcast::test::run;

namespace {

nlohmann::json report(const std::string& arguments) {
  const Result r = run(arguments + " --json -");
  INFO(arguments << "\n" << r.err);
  REQUIRE(r.status <= 1);
  return nlohmann::json::parse(r.out);
}

void check_same(const std::string& job, const std::string& format, const std::string& extension) {
  const std::string file = (std::filesystem::temp_directory_path() /
                            ("export-" + std::to_string(::getpid()) + "-" + format + extension))
                               .string();
  const Result r = run("export " + job + " --to " + format + " --output " + file);
  INFO(job << "\n" << r.err);
  REQUIRE(r.status == 0);
  const std::string start = "gives the same job: simulate ";
  REQUIRE(r.err.rfind(start, 0) == 0);
  const std::string command = r.err.substr(start.size(), r.err.size() - start.size() - 1);
  auto before = report(job);
  auto after = report(command);
  // What a job leaves open widens the interval of its memory, too.
  for (auto* one : {&before, &after}) {
    (*one)["memory"]["peak"] = (*one)["memory"]["peak"]["value"];
    (*one)["memory"]["fits"] = (*one)["memory"]["fits"]["spare"];
  }
  for (const char* key : {"breakdown", "memory", "traffic"}) {
    CHECK(before[key] == after[key]);
  }
  // What a job leaves open widens its intervals; a launch file leaves nothing open.
  for (const char* key : {"step_time", "mfu"}) {
    CHECK(before[key]["value"] == after[key]["value"]);
  }
  std::filesystem::remove(file);
}

}  // namespace

TEST_CASE("The file and the command beside it give the same forecast") {
  check_same("--config llama70b --set memory.recompute=full", "megatron", ".sh");
  check_same("--config llama405b --set memory.recompute=selective", "megatron", "");
  check_same("--config mixtral-8x7b", "megatron", ".sh");
  check_same(
      "--config llama70b --set system=zero-bubble --set parallelism.virtual_pipeline=1 "
      "--set parallelism.schedule=zb_auto",
      "megatron", ".sh");
  check_same("--config llama8b-fsdp", "accelerate", ".yaml");
  check_same(
      "--config llama8b-fsdp --set system=torchtitan --set 'parallelism.context={size: 2, "
      "kind: all_gather}'",
      "torchtitan", ".toml");
  check_same(
      "--config llama8b-fsdp --set system=deepspeed --set 'memory.offload={optimizer: "
      "{to: cpu, ratio: 0.3}}'",
      "deepspeed", ".json");
  check_same(
      "--config llama8b-fsdp --set system=nnscaler --set parallelism.sharding=zero1 --set "
      "parallelism.tensor=2",
      "nnscaler", ".yaml");
  check_same("--config gpt3-175b --set system.launch='4 us'", "job", ".yaml");
}

TEST_CASE(
    "The command names a cluster that gives the same forecast, or says that it is the job's") {
  const auto folder =
      std::filesystem::temp_directory_path() / ("export-cluster-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(folder / name) << text;
    return (folder / name).string();
  };
  const std::string job =
      "model: llama-3.1-8b\nsystem: megatron-lm\nworkload: {global_batch: 64, micro_batch: 1, "
      "sequence_length: 4096, precision: bf16}\nparallelism: {tensor: 2}\n";
  // Another device and other adapters than the named cluster's, and what stands beside it.
  check_same("--config llama70b --set cluster.device=b200-sxm --set cluster.node.nic='100 Gb/s'",
             "megatron", ".sh");
  check_same("--config llama70b --set cluster.device.power='400 W' --set nccl.algo=ring",
             "megatron", ".sh");
  // A cluster file of one's own, and a device of one's own.
  write("mine.yaml", "use: dgx-h100\nnode: {nic: 100 Gb/s}\n");
  write("device.yaml",
        "use: h100-sxm\nname: slow\nmemory_bandwidth: 2 TB/s\npeak: {bf16: 500 TFLOP/s}\n");
  const std::string mine = write(
      "job.yaml", job + "cluster: {use: " + (folder / "mine.yaml").string() + ", nodes: 2}\n");
  check_same("--config " + mine, "megatron", ".sh");
  const std::string device =
      write("device-job.yaml", job + "cluster: {use: dgx-h100, device: " +
                                   (folder / "device.yaml").string() + ", nodes: 2}\n");
  check_same("--config " + device, "megatron", ".sh");
  // A cluster in the job's own file has no name.
  const std::string own = write(
      "own.yaml", job +
                      "cluster: {device: h100-sxm, node: {gpus: 8, intra: nvswitch, nics: 8, nic: "
                      "400 Gb/s}, nodes: 2}\n");
  const std::string file = (folder / "o.sh").string();
  const Result r = run("export --config " + own + " --to megatron --output " + file);
  INFO(r.err);
  CHECK(r.status == 0);
  CHECK(r.err ==
        "gives the same job with its own cluster in a file CLUSTER: simulate --from megatron " +
            file + " --cluster CLUSTER --nodes 2\n");
  std::filesystem::remove_all(folder);
}

TEST_CASE("A job that cannot be said leaves no file") {
  const std::string file =
      (std::filesystem::temp_directory_path() / ("refused-" + std::to_string(::getpid()))).string();
  const Result r =
      run("export --config llama405b --set 'memory.recompute={every: 3}' --to megatron --output " +
          file);
  CHECK(r.status == 2);
  CHECK(r.out.empty());
  CHECK(
      r.err.find("--set memory.recompute={every: 3}: error: Megatron-LM's arguments cannot express "
                 "memory.recompute: {every: 3}; expected none") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(file));
  check_refused("export --config llama70b", "--to: error: missing; expected job | megatron");
  check_refused("export --to job", "--config: error: missing");
  check_refused("export --config llama70b --to csv", "--to: error: 'csv' is not a format");
}

TEST_CASE("A search writes the strategy that it found") {
  const std::string base =
      (std::filesystem::temp_directory_path() / ("found-" + std::to_string(::getpid()))).string();
  const std::string search =
      "search --config llama70b --space tests/unit/cli/two_grids.yaml --threads 1 --json - ";
  const Result r = run(search + "--export job=" + base + ".yaml --export megatron=" + base + ".sh");
  INFO(r.err);
  REQUIRE(r.status == 0);
  const auto best = nlohmann::json::parse(r.out)["best"];
  CHECK(report("--config " + base + ".yaml")["step_time"]["value"] == best["step_time"]["value"]);
  CHECK(report("--from megatron " + base +
               ".sh --cluster dgx-h100 --nodes 64")["step_time"]["value"] ==
        best["step_time"]["value"]);
  CHECK(r.err.find("gives the same job: simulate --config " + base + ".yaml\n") !=
        std::string::npos);
  for (const char* extension : {".yaml", ".sh"}) {
    std::filesystem::remove(base + extension);
  }
  check_refused(search + "--export megatron",
                "--export: error: is 'megatron'; expected FORMAT=FILE");
  check_refused(search + "--export csv=x", "--export: error: is 'csv=x'; expected FORMAT=FILE");
}
