// `simulate sweep`: every row equals the forecast of its job alone, whichever worker computes it.
#include <cmath>
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "unit/cli/program.h"

namespace {

using nlohmann::json;
using stepcast::test::check_refused;
using stepcast::test::Folder;
using stepcast::test::Result;
using stepcast::test::run;

std::string quoted(const std::string& text) { return "'" + text + "'"; }

// The output of `simulate` for the same job.
void check_row(const std::string& config, const json& row) {
  std::string arguments = "--json - --config " + config;
  for (const auto& text : row["overrides"]) {
    arguments += " --set " + quoted(text.get<std::string>());
  }
  INFO(arguments);
  const Result one = run(arguments);
  CHECK(row["ran"] == (one.status != 2));
  if (one.status == 2) {
    CHECK_THAT(one.err, ContainsSubstring(row["reason"].get<std::string>()));
    return;
  }
  const json job = json::parse(one.out);
  CHECK((row["fits"]["spare"] >= 0) == (one.status == 0));
  CHECK(row["fits"] == job["memory"]["fits"]);
  CHECK(row["peak"] == job["memory"]["peak"]);
  CHECK(row["capacity"] == job["memory"]["capacity"]);
  CHECK(row["step_time"] == job["step_time"]);
  CHECK(row["mfu"] == job["mfu"]);
  CHECK(row["tokens_per_second_per_gpu"] == job["tokens_per_second_per_gpu"]);
  CHECK(row["bubble_fraction"] == job["bubble_fraction"]);
}

// Points that run, that do not fit in memory, and that are impossible.
const std::string kSmall =
    "sweep --config llama8b-fsdp --vary cluster.nodes=1,2 --vary workload.micro_batch=1,2,3,8 "
    "--vary 'memory.recompute=none,{uniform: 2}' ";

}  // namespace

TEST_CASE("Each row is what the job says by itself") {
  const Result r = run(kSmall + "--json -");
  REQUIRE(r.status == 0);
  const json sweep = json::parse(r.out);
  REQUIRE(sweep["points"].size() == 16);
  int fits = 0, misfits = 0, impossible = 0;
  for (const json& row : sweep["points"]) {
    check_row("llama8b-fsdp", row);
    (!row["ran"] ? impossible : row["fits"]["spare"] >= 0 ? fits : misfits) += 1;
  }
  CHECK(fits > 0);
  CHECK(misfits > 0);
  CHECK(impossible > 0);
}

TEST_CASE("The best strategy of each row is what a search says") {
  const Folder folder;
  const std::string space =
      folder.write("s.yaml", "tensor: [1, 2]\nmicro_batch: [1, 2]\nrecompute: [none, full]\n");
  const std::string base =
      " --config llama8b-fsdp --set workload.global_batch=32 --json - --space ";
  const Result r = run("sweep --vary cluster.nodes=1,2 --optimize" + base + space);
  REQUIRE(r.status == 0);
  const json found = json::parse(r.out);
  for (const json& row : found["points"]) {
    const Result one =
        run("search" + base + space + " --set " + row["overrides"][0].get<std::string>());
    const json best = json::parse(one.out)["best"];
    CHECK(row["strategy"] == best["overrides"]);
    // A search prints all digits of a double, a sweep twelve decimals.
    CHECK(std::abs(row["step_time"]["value"].get<double>() -
                   best["step_time"]["value"].get<double>()) < 1e-12);
  }
}

TEST_CASE("A sweep says the same on one thread and four") {
  for (const std::string form : {"--json -", "--csv -", "--svg -", ""}) {
    const Result one = run(kSmall + form + " --threads 1");
    CHECK(one.status == 0);
    CHECK(run(kSmall + form + " --threads 4").out == one.out);
  }
}

TEST_CASE("Wrong options are one line") {
  check_refused("sweep --vary cluster.nodes=1", "--config: error: missing");
  check_refused("sweep --config llama8b-fsdp", "--vary: error: missing");
  check_refused("sweep --config nowhere --vary cluster.nodes=1,2", "--config nowhere: error:");
  check_refused("sweep --config llama8b-fsdp --vary cluster.nods=1,2",
                "--vary cluster.nods=1,2: error: unknown key 'nods'");
  check_refused("sweep --config llama8b-fsdp --vary nodes=1,zz",
                "--vary nodes=1,zz: error: cluster.nodes is 'zz'; expected an integer from 1 to");
  check_refused("sweep --config llama8b-fsdp --vary cluster.use=dgx-h100,dgx-h1",
                "--vary cluster.use=dgx-h100,dgx-h1: error: there is no cluster 'dgx-h1'");
  check_refused("sweep --config llama8b-fsdp --vary cluster.nodes=2..1",
                "--vary cluster.nodes=2..1: error: '2..1' is not a range");
  check_refused("sweep --config llama8b-fsdp --vary cluster.nodes=1 --space default",
                "--space: error: applies only to searches");
  check_refused("sweep --config llama8b-fsdp --vary cluster.nodes=1 --svg - --plot pie",
                "--plot: error: unknown plot");
  check_refused("sweep --config llama8b-fsdp --vary cluster.nodes=1 --svg - --plot heatmap",
                "--plot: error: needs two axes");
}

#ifdef STEPCAST_MPIEXEC
TEST_CASE("A sweep says the same on 1, 2 and 4 processes, with a store and without") {
  const Folder folder;
  const std::string alone = run(kSmall + "--json -").out;
  for (const int processes : {1, 2, 4}) {
    INFO(processes);
    const std::string store = " --store " + folder.file(std::to_string(processes) + ".db");
    const Result r = stepcast::test::under_mpi(processes, folder, kSmall + "--json -");
    INFO(r.err);
    CHECK(r.status == 0);
    CHECK(r.out == alone);
    CHECK(stepcast::test::under_mpi(processes, folder, kSmall + "--json -" + store).out == alone);
    const Result again = run(kSmall + "--json -" + store);
    CHECK(again.out == alone);
    CHECK_THAT(again.err, ContainsSubstring(": 0 computed"));
  }
  const Result wrong = stepcast::test::under_mpi(3, folder, "sweep --config nowhere --vary a.b=1");
  CHECK(wrong.status == 2);
  CHECK(wrong.err.find("error:") == wrong.err.rfind("error:"));
}
#endif
