// The short ways to say things: words without an option, short keys, sizes with endings, lists of
// presets.
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "catch.hpp"
#include "stepcast/config/config.h"
#include "unit/cli/run.h"

using namespace stepcast;
using test::check_refused;
using test::Result;
using test::run;

TEST_CASE("A job and its keys may be words alone") {
  const Result words = run("llama8b-fsdp mbs=1 seq=4k memory.recompute=none --show-job");
  const Result options =
      run("--config llama8b-fsdp --set workload.micro_batch=1 --set workload.sequence_length=4096 "
          "--set "
          "memory.recompute=none --json -");
  CHECK(words.status == 0);
  CHECK_THAT(words.out, ContainsSubstring("sequence_length: 4096"));
  const Result same = run("llama8b-fsdp mbs=1 seq=4k memory.recompute=none --json -");
  CHECK(same.out == options.out);
  CHECK(run("memory llama8b-fsdp --json -").out ==
        run("memory --config llama8b-fsdp --json -").out);
}

TEST_CASE("A report's second line says what is trained of a model") {
  CHECK_THAT(run("llama70b-lora --fidelity bound").out, ContainsSubstring(", bf16, LoRA rank 8;"));
  CHECK_THAT(
      run("mixtral-8x7b --fidelity bound 'memory.recompute={modules: [core_attn, mlp]}'").out,
      ContainsSubstring("recompute core_attn, mlp"));
}

TEST_CASE("A model may have the name that the Hugging Face Hub gives it") {
  for (const auto& [hub, preset] : {std::pair{"meta-llama/Llama-3.1-8B", "llama-3.1-8b"},
                                    std::pair{"meta-llama/Llama-2-7b-hf", "llama-2-7b"},
                                    std::pair{"deepseek-ai/DeepSeek-V3", "deepseek-v3"}}) {
    INFO(hub);
    CHECK(run(std::string("llama8b-fsdp model=") + hub + " --fidelity bound --json -").out ==
          run(std::string("llama8b-fsdp model=") + preset + " --fidelity bound --json -").out);
  }
  check_refused(
      "llama8b-fsdp model=nobody/NoSuch-9B",
      "--set model=nobody/NoSuch-9B: error: there is no file 'nobody/NoSuch-9B'; expected "
      "the path of a model");
}

TEST_CASE("Every short key is a key of a job") {
  for (const config::ShortKey& one : config::short_keys()) {
    CHECK_THAT(run("llama8b-fsdp --set " + std::string(one.name) + "=[]").err,
               ContainsSubstring("error: " + one.key + " is"));
    CHECK(config::whole_key(std::string(one.name) + "=4") == one.key + "=4");
  }
  CHECK(config::whole_key("tensor=4") == "parallelism.tensor=4");
  CHECK(config::whole_key("global_batch=8") == "workload.global_batch=8");
  CHECK(config::whole_key("model=tensor") == "model=tensor");
  CHECK(config::whole_key("parallelism.tp=4") == "parallelism.tp=4");
}

TEST_CASE("Words that are neither command, job nor key get one line") {
  check_refused(
      "llama8b-fsdp memory",
      "llama8b-fsdp: error: stands before the command; expected it behind simulate memory");
  check_refused(
      "llama8b-fsdp mixtral-8x7b",
      "mixtral-8x7b: error: the job is 'llama8b-fsdp' already; expected KEY=VALUE, such as "
      "tp=4");
  check_refused("llama8b-fsdp seq=4.0001k",
                "--set workload.sequence_length=4.0001k: error: workload.sequence_length is "
                "'4.0001k'; expected an integer from 1 to 1000000000");
}

TEST_CASE("A margin of memory makes what needs it not fit") {
  const auto capacity = [](const std::string& arguments) {
    return nlohmann::json::parse(
               run("llama8b-fsdp --json - " + arguments).out)["memory"]["capacity"]
        .get<double>();
  };
  CHECK(capacity("--memory-margin 10%") == Approx(0.9 * capacity("")).epsilon(1e-9));
  CHECK(capacity("memory.margin=0.1") == capacity("--memory-margin 10%"));
  CHECK(run("llama8b-fsdp --memory-margin 60%").status == 1);
  CHECK(run("llama8b-fsdp --memory-margin 96%").status == 2);
  CHECK_THAT(run("llama8b-fsdp --memory-margin 5%").out,
             ContainsSubstring("5 % of each device's memory is left free"));
}

TEST_CASE("Presets are listed with their figures, and filtered by words") {
  const auto names = [](const std::string& arguments) {
    std::set<std::string> out;
    const auto listed = nlohmann::json::parse(run(arguments + " --json -").out);
    for (const auto& one : listed["presets"]) {
      out.insert(one["name"].get<std::string>());
    }
    return out;
  };
  for (const std::string kind : {"models", "devices", "clusters", "jobs"}) {
    const std::vector<std::string> listed = config::list(kind);
    CHECK(names(kind) == std::set<std::string>(listed.begin(), listed.end()));
  }
  CHECK(names("schedules").count("1f1b") == 1);
  CHECK(names("models LLAMA 405") == std::set<std::string>{"llama-3.1-405b"});
  CHECK_THAT(run("devices tpu-v5p").out, ContainsSubstring("data sheet"));
  CHECK_THAT(run("devices h100-sxm").out, ContainsSubstring("measured"));
  check_refused("models nonesuch",
                "models: error: none has 'nonesuch'; expected words of simulate models");
}

TEST_CASE("Two jobs stand beside each other") {
  const auto d = nlohmann::json::parse(run("diff llama8b-fsdp mbs=1 --json -").out);
  REQUIRE(d["keys"].size() == 1);
  CHECK(d["keys"][0]["key"] == "workload.micro_batch");
  CHECK(d["keys"][0]["a"] == "2");
  CHECK(d["keys"][0]["b"] == "1");
  const auto figure = [&](const std::string& name, const char* side) {
    for (const auto& f : d["figures"]) {
      if (f["name"] == name) {
        return f[side].get<double>();
      }
    }
    return -1.0;
  };
  for (const auto& [arguments, side] : {std::pair{"", "a"}, {"mbs=1", "b"}}) {
    const auto one =
        nlohmann::json::parse(run(std::string("llama8b-fsdp --json - ") + arguments).out);
    CHECK(figure("step time", side) == one["step_time"]["value"].get<double>());
    CHECK(figure("peak memory", side) == one["memory"]["peak"]["value"].get<double>());
  }
  CHECK_THAT(run("diff llama8b-fsdp llama8b-fsdp").out,
             ContainsSubstring("The jobs are the same."));
  check_refused("diff llama8b-fsdp", "diff: error: 1 jobs or forecasts were given; expected two");
}
