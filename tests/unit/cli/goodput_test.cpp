// `simulate goodput` as a process: shares add up, the same seed gives the same output, and faults
// name their option.
#include <nlohmann/json.hpp>
#include <string>

#include "catch.hpp"
#include "unit/cli/run.h"

namespace {

using nlohmann::json;
using stepcast::test::check_refused;
using stepcast::test::run;

const std::string kJob = "goodput --config llama8b-fsdp --runs 20";

}  // namespace

TEST_CASE("goodput's shares add up to the wall clock, and its tokens follow from the forecast's") {
  const auto text = run(kJob + " --json -").out;
  const json g = json::parse(text);
  double sum = g.at("effective").at("value");
  for (const auto& [name, share] : g.at("losses").items()) {
    sum += share.get<double>();
  }
  CHECK(sum == Approx(1).margin(1e-9));
  const json forecast = json::parse(run("--config llama8b-fsdp --json -").out);
  const double per_gpu = forecast.at("tokens_per_second_per_gpu").at("value");
  const double gpus = 8;
  CHECK(g.at("tokens_per_day").at("value").get<double>() ==
        Approx(per_gpu * gpus * 86400 * g.at("effective").at("value").get<double>()));
  CHECK(run(kJob + " --json -").out == text);
  CHECK(run(kJob + " --seed 2 --json -").out != text);
}

TEST_CASE("goodput with longer intervals loses more to work done again") {
  const auto redone = [&](const std::string& interval) {
    return json::parse(run(kJob + " --duration 90d --interval " + interval + " --json -").out)
        .at("losses")
        .at("work done again")
        .get<double>();
  };
  CHECK(redone("6h") > redone("10min"));
}

TEST_CASE("goodput refuses what is no time, no count and no file") {
  check_refused(kJob + " --interval soon", "--interval");
  check_refused(kJob + " --duration 0", "--duration");
  check_refused("goodput --config llama8b-fsdp --runs 0", "--runs");
  check_refused(kJob + " --operations /nowhere.yaml", "/nowhere.yaml");
}
