// `simulate search --algorithm` as a process: several algorithms on one graph and cost model.
#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "catch.hpp"
#include "support/folder.h"
#include "unit/cli/run.h"

namespace {

using nlohmann::json;

using stepcast::test::Folder;
using stepcast::test::Result;
using stepcast::test::run;

// Eight layers with experts on two nodes.
std::string small(const Folder& folder) {
  return "search --config " +
         folder.write("job.yaml",
                      "model: {layers: 8, hidden: 2048, heads: 16, ffn: 4096, gated_mlp: true, "
                      "vocab: 32000, positions: rotary, norm: rms, moe: {experts: 8, topk: 2}}\n"
                      "cluster: {use: dgx-a100, nodes: 2}\n"
                      "system: megatron-lm\n"
                      "workload: {sequence_length: 2048, global_batch: 32, micro_batch: 1}\n"
                      "parallelism: {sequence_parallel: true}\n") +
         " --vary micro_batch=1,2 --vary sharding=zero1 --vary virtual_pipeline=1 "
         "--vary context=1 --vary recompute=none,full ";
}

bool has_solver(const std::string& small) {
  return run(small + "--vary tensor=8 --vary pipeline=2 --algorithm nnscaler")
             .err.find("no solver") == std::string::npos;
}

}  // namespace

TEST_CASE("algorithms are compared: estimate, forecast, memory, gap; a list or one by one") {
  const Folder folder;
  const std::string job = small(folder);
  const bool solver = has_solver(job);
  const std::string graph = solver ? "alpa,nnscaler,flexflow" : "flexflow";
  const Result r = run(job + "--algorithm exact," + graph + " --algorithm annealing --json -");
  REQUIRE(r.status == 0);
  const json found = json::parse(r.out);
  double best = 0;
  for (const json& a : found.at("algorithms")) {
    const std::string name = a.at("name");
    INFO(name);
    REQUIRE(a.at("found") == true);
    CHECK(a.at("fits").at("spare") >= 0);
    CHECK(a.at("step_time") > 0.0);
    if (name == "exact") {
      best = a.at("objective");
      CHECK(a.at("proven") == true);
      continue;
    }
    // The answer is a point of the space for which the exact search proves its optimum, unless its
    // stages are uneven.
    bool uneven = false;
    for (const json& text : a.at("overrides")) {
      uneven = uneven || text.get<std::string>().find("layers_per_stage") != std::string::npos;
    }
    if (!uneven) {
      CHECK(a.at("objective").get<double>() >= best * (1 - 1e-9));
    }
    if (name == "annealing") {
      continue;
    }
    // The estimates of one strategy by the algorithm's own cost model: its parts add up, and a free
    // plan is not slower.
    const json& own = a.at("own");
    const double step = own.at("step_time");
    CHECK(own.at("compute").get<double>() + own.at("recompute").get<double>() +
              own.at("communication").get<double>() + own.at("waiting").get<double>() ==
          Approx(step).epsilon(1e-9));
    if (name != "flexflow") {
      CHECK(a.at("own_step_time").get<double>() <= step * (1 + 1e-9));
      CHECK(a.contains("proven"));
    }
    CHECK(std::abs(step / a.at("step_time").get<double>() - 1) < 0.35);
  }
  CHECK(found.at("algorithms").size() == (solver ? 5U : 3U));
  const Result text = run(job + "--algorithm flexflow");
  CHECK_THAT(text.out, ContainsSubstring("own / forecast, s") && ContainsSubstring("took"));
}

TEST_CASE("a plan that is said to fit does, by the engine, on shipped jobs") {
  for (const char* config : {"gpt3-175b", "llama70b", "mixtral-8x7b"}) {
    const Result r = run(std::string("search --config ") + config +
                         " --vary micro_batch=1 --algorithm flexflow --json -");
    INFO(config);
    REQUIRE(r.status == 0);
    const json a = json::parse(r.out).at("algorithms")[0];
    CHECK(a.at("found") == true);
    CHECK(a.at("fits").at("spare") >= 0);
  }
}

TEST_CASE("a plan that is too large by the engine is planned again with more left free") {
  const Folder folder;
  const std::string job = small(folder) + "--algorithm flexflow --json - ";
  const auto answer = [&](const std::string& more) {
    const Result r = run(job + more);
    REQUIRE(r.status == 0);
    return json::parse(r.out).at("algorithms")[0];
  };
  const json roomy = answer("");
  CHECK(roomy.at("notes").empty());
  // The graph does not model contexts, and these take more than the tenth of memory that it leaves
  // free.
  const json tight = answer("--set system.context_memory=74GiB");
  REQUIRE(!tight.at("notes").empty());
  CHECK_THAT(tight.at("notes")[0].get<std::string>(), ContainsSubstring("planned again"));
  CHECK(tight.at("fits").at("spare") >= 0);
  CHECK(tight.at("own").at("memory") < roomy.at("own").at("memory"));
  CHECK(tight.at("own").at("step_time") > roomy.at("own").at("step_time"));
  // No plan leaves that much memory free.
  const Result none = run(job + "--set system.context_memory=79GiB");
  CHECK(none.status == 1);
  CHECK(json::parse(none.out).at("algorithms")[0].at("fits").at("spare") < 0);
}

TEST_CASE("the best of the answers is exported, and read back is the same job") {
  const Folder folder;
  const std::string file = folder.write("found.yaml", "");
  const Result r = run(small(folder) + "--algorithm flexflow,exact --json - --export job=" + file);
  REQUIRE(r.status == 0);
  double best = std::numeric_limits<double>::infinity();
  const json found = json::parse(r.out);
  for (const json& a : found.at("algorithms")) {
    best = std::min(best, a.at("step_time").get<double>());
  }
  const Result back = run("--json - --config " + file);
  REQUIRE(back.status == 0);
  CHECK(json::parse(back.out).at("step_time").at("value").get<double>() ==
        Approx(best).epsilon(1e-9));
  CHECK_THAT(r.err, ContainsSubstring("gives the same job"));
}

TEST_CASE("virtual stages are of the forms: what waits is shorter by them") {
  const Folder folder;
  const std::string job =
      small(folder) + "--vary pipeline=4 --vary tensor=4 --algorithm flexflow --json - ";
  const auto own = [&](const std::string& more) {
    const Result r = run(job + more);
    REQUIRE(r.status == 0);
    const json a = json::parse(r.out).at("algorithms")[0];
    REQUIRE(a.at("found") == true);
    return a;
  };
  const json one = own("--vary virtual_pipeline=1");
  const json two = own("--vary virtual_pipeline=2");
  const json either = own("--vary virtual_pipeline=1,2,3");
  CHECK(two.at("overrides").dump().find("virtual_pipeline=2") != std::string::npos);
  const auto step = [](const json& a) { return a.at("own").at("step_time").get<double>(); };
  const auto waiting = [](const json& a) { return a.at("own").at("waiting").get<double>(); };
  CHECK(waiting(two) < waiting(one));
  CHECK(step(two) < step(one));
  // Three virtual stages do not divide the two layers of a stage.
  CHECK(either.at("overrides") == two.at("overrides"));
}

TEST_CASE("rules of the user are kept, and what is wrong with them is said line by line") {
  const Folder folder;
  const std::string job = small(folder);
  const auto file = folder.write("rules.yaml",
                                 "op_trans:\n"
                                 "  - {op: attention.qkv, split: hidden, axis: tensor}\n"
                                 "op_assign:\n"
                                 "  - {layers: 0..5, stage: 0}\n"
                                 "op_order: {schedule: gpipe}\n");
  const Result r = run(job + "--algorithm flexflow --json - --constraints " + file);
  REQUIRE(r.status == 0);
  const json a = json::parse(r.out).at("algorithms")[0];
  CHECK(a.at("overrides").dump().find("parallelism.schedule=gpipe") != std::string::npos);
  const auto wrong = folder.write("wrong.yaml",
                                  "op_trans:\n"
                                  "  - {op: attention.qvk, split: hidden}\n"
                                  "  - {op: mlp_norm, split: experts}\n"
                                  "op_assgn: []\n"
                                  "op_assign:\n"
                                  "  - {layers: 0..3, stage: 1}\n"
                                  "  - {layers: 2..5, stage: 0}\n"
                                  "op_order: {schedule: interleaved_1f1b}\n");
  const Result bad = run(job + "--algorithm flexflow --constraints " + wrong);
  CHECK(bad.status == 2);
  CHECK_THAT(bad.err, ContainsSubstring("wrong.yaml:2:") && ContainsSubstring("did you mean") &&
                          ContainsSubstring("wrong.yaml:3:") && ContainsSubstring("op_assgn") &&
                          ContainsSubstring("wrong.yaml:7:") &&
                          ContainsSubstring("contradicts line 6") &&
                          ContainsSubstring("needs virtual stages"));
  CHECK(run(job + "--algorithm exact --constraints " + file).status == 2);
  // The rules ask for a number of stages that does not divide the ranks: the rule to relax is
  // named.
  const auto tight = folder.write("tight.yaml",
                                  "op_assign:\n"
                                  "  - {layers: 0..2, stage: 0}\n"
                                  "  - {layers: 3..3, stage: 7}\n");
  const Result none = run(job + "--algorithm flexflow --constraints " + tight);
  CHECK(none.status == 1);
  CHECK_THAT(none.out, ContainsSubstring("relax"));
}

TEST_CASE("faulty algorithms end with status 2") {
  const Folder folder;
  const Result unknown = run(small(folder) + "--algorithm alpa,nnscalar");
  CHECK(unknown.status == 2);
  CHECK_THAT(unknown.err, ContainsSubstring("did you mean 'nnscaler'"));
}
