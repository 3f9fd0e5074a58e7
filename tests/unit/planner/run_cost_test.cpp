// The cost of the whole run of one job: the closed forms, and the values in a forecast's report.
#include "stepcast/planner/run_cost.h"

#include "../report/sample.h"
#include "catch.hpp"
#include "stepcast/base/calendar.h"
#include "stepcast/config/config.h"
#include "stepcast/report/run_cost.h"
#include "stepcast/text/document.h"

using namespace stepcast;

namespace {

// A job with 128 sequences of 8192 tokens per step on 2 nodes of 8 H100.
job::Job stated(std::vector<std::string> more) {
  std::vector<std::string> overrides = {"cluster.nodes=2", "workload.global_batch=128"};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return config::load("llama8b-fsdp", overrides).job;
}
job::Job stated() { return stated({"workload.tokens=1e12"}); }

planner::RunRequest request() {
  planner::RunRequest r;
  r.catalogue = planner::read_catalogue(text::data_directory() / "configs/catalogue/default.yaml");
  return r;
}

}  // namespace

TEST_CASE("a run's days, GPU-hours and price follow from its steps where nothing fails") {
  const result::Report report = sample::report();
  planner::RunRequest r = request();
  r.price = 2.5;
  const auto run = planner::run_cost(stated(), report, r);
  REQUIRE(run);
  const double steps = 1e12 / (128 * 8192.0);
  CHECK(run->days.value == Approx(steps * report.step_time.value / kDay));
  CHECK(run->days.low == Approx(steps * report.step_time.low / kDay));
  CHECK(run->days.high == Approx(steps * report.step_time.high / kDay));
  CHECK(run->gpu_hours.value == Approx(run->days.value * 24 * 16));
  REQUIRE(run->cost);
  CHECK(run->cost->value == Approx(2.5 * run->gpu_hours.value));
  CHECK(run->effective.value == 1);
}

TEST_CASE("a run's energy is that of its nodes by what the step does, and of the building") {
  const result::Report report = sample::report();
  const planner::RunRequest r = request();
  const auto run = planner::run_cost(stated(), report, r);
  REQUIRE(run);
  // Per second, the stages work 760 and 830 ms and wait 140 and 100 ms for communication.
  CHECK(run->busy == Approx((0.760 + 0.830) / 2).epsilon(1e-9));
  CHECK(run->communicating == Approx((0.140 + 0.100) / 2).epsilon(1e-9));
  CHECK(run->offer == "own-dgx-h100");  // the catalogue's offer of this cluster
  const double gpu =
      700 * run->busy + 350 * run->communicating + 70 * (1 - run->busy - run->communicating);
  const double watts = 2 * (8 * gpu + 2800 + 600) * 1.3;
  REQUIRE(run->energy);
  CHECK(run->average_power == Approx(watts));
  CHECK(run->energy->value == Approx(watts * run->days.value * kDay));
  CHECK_FALSE(run->cost);  // nothing states a price
  CHECK_FALSE(run->carbon);
}

TEST_CASE("an offer brings its price and its site's carbon; failures make a run longer") {
  const result::Report report = sample::report();
  planner::RunRequest r = request();
  r.offer = "own-dgx-h100";
  const auto bought = planner::run_cost(stated(), report, r);
  REQUIRE(bought);
  REQUIRE(bought->cost);
  REQUIRE(bought->carbon);
  CHECK(bought->cost->value == Approx(bought->expenses.sum()));
  CHECK(bought->carbon->value == Approx(bought->energy->value / kKilowattHour * 0.367));
  r.offer = "coreweave-h100";  // the same nodes under another name
  const auto rented = planner::run_cost(stated(), report, r);
  REQUIRE(rented);
  REQUIRE(rented->cost);
  CHECK(rented->cost->value == Approx(6.155 * rented->gpu_hours.value));
  const planner::Operations operations =
      planner::read_operations(text::data_directory() / "configs/operations/default.yaml");
  r.operations = &operations;
  const auto failing = planner::run_cost(stated(), report, r);
  REQUIRE(failing);
  CHECK(failing->effective.value < 1);
  CHECK(failing->days.value == Approx(rented->days.value / failing->effective.value));
}

TEST_CASE("what the catalogue lacks is said: an offer, its nodes, power of a device") {
  const result::Report report = sample::report();
  planner::RunRequest r = request();
  r.offer = "coreweave-h10";
  CHECK_THROWS_WITH(planner::run_cost(stated(), report, r),
                    ContainsSubstring("did you mean 'coreweave-h100'"));
  r.offer = "aws-p4d";
  CHECK_THROWS_WITH(planner::run_cost(stated(), report, r), ContainsSubstring("nodes that differ"));
  r.offer = "";
  const auto run =
      planner::run_cost(stated({"workload.tokens=1e12", "cluster.use=l40s-server"}), report, r);
  REQUIRE(run);
  CHECK_FALSE(run->energy);
  CHECK_THAT(run->no_energy, ContainsSubstring("l40s"));
}

TEST_CASE("without workload.tokens there is no run, and a report is the same bytes") {
  const result::Report report = sample::report();
  const auto none = planner::run_cost(stated({}), report, request());
  CHECK_FALSE(none);
  CHECK(report::json(report, none) == report::json(report));
  CHECK(report::terminal(report, none, false, 100) == report::terminal(report, false, 100));
  const auto run = planner::run_cost(stated(), report, request());
  const std::string text = report::terminal(report, run, false, 100);
  CHECK_THAT(text, ContainsSubstring("Time to train"));
  CHECK_THAT(text, ContainsSubstring("goodput 100 % (no failures)"));
  CHECK_THAT(report::json(report, run), ContainsSubstring("\"run\""));
}

TEST_CASE("a bound's run says no energy: it does not know how long GPUs wait") {
  result::Report bound = sample::report();
  bound.breakdown.clear();
  const auto run = planner::run_cost(stated(), bound, request());
  REQUIRE(run);
  CHECK(run->at_least);
  CHECK(run->days.value > 0);
  CHECK_FALSE(run->energy);
}
