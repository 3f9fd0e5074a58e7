// `simulate export` as a process: the command that it prints gives the same forecast.
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
