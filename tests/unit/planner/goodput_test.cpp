// Goodput: closed forms of failures and checkpoints, and the values of published runs.
#include "stepcast/planner/goodput.h"

#include <cmath>
#include <numeric>

#include "../../support/folder.h"
#include "catch.hpp"
#include "stepcast/base/diagnostics.h"
#include "stepcast/text/document.h"

using namespace stepcast;
using namespace std::chrono_literals;
using planner::Component;
using planner::Seconds;

namespace {

constexpr double kTera = 1e12;

// One kind of failure with the mean interval `mean`, and checkpoints that stop training for
// `pause`.
planner::Operations plain(Seconds mean, Seconds pause) {
  planner::Operations o;
  o.failures = {{"job", Component::job, 3600 / mean.count()}};
  o.storage = o.node_storage = Bandwidth(kTera / pause.count());
  return o;
}

planner::Campaign campaign() {
  planner::Campaign c;
  c.step = 1s;
  c.checkpoint = kTera;
  return c;
}

double sum_of(const result::Goodput& g) {
  return std::accumulate(g.losses.begin(), g.losses.end(), g.effective.value,
                         [](double sum, const auto& l) { return sum + l.second; });
}

}  // namespace

TEST_CASE("the best interval is Young's and Daly's where checkpoints are short") {
  for (const double mean : {3.6e5, 3.6e6, 3.6e7}) {
    for (const double pause : {2.0, 20.0}) {
      const auto o = plain(Seconds(mean), Seconds(pause));
      const double best = planner::best_interval(o, campaign()).count();
      CHECK(best ==
            Approx(planner::daly_interval(Seconds(pause), Seconds(mean)).count()).epsilon(0.02));
      CHECK(best ==
            Approx(planner::young_interval(Seconds(pause), Seconds(mean)).count()).epsilon(0.02));
    }
  }
}

TEST_CASE("with long checkpoints the best interval is still Daly's, no longer Young's") {
  const Seconds mean(3600), pause(400);
  const double best = planner::best_interval(plain(mean, pause), campaign()).count();
  CHECK(best == Approx(planner::daly_interval(pause, mean).count()).epsilon(0.02));
  CHECK(best < 0.9 * planner::young_interval(pause, mean).count());
}

TEST_CASE("simulated runs train as long as the renewal formula says") {
  for (const bool asynchronous : {false, true}) {
    auto o = plain(4h, 30s);
    o.detection = 120s;
    o.restart = 300s;
    o.asynchronous = asynchronous;
    o.snapshot = Bandwidth(kTera);  // a pause of a second
    planner::GoodputRequest request;
    request.duration = Seconds(60 * 86400.0);
    request.interval = 600s;
    const result::Goodput g = planner::simulate_runs(o, campaign(), request);
    // 90 failures in each of 200 runs determine the mean of the share to a thousandth.
    CHECK(g.effective.value == Approx(g.expected).margin(0.002));
    CHECK(g.interruptions.value == Approx(360).epsilon(0.02));
    CHECK(sum_of(g) == Approx(1).margin(1e-9));
  }
}

TEST_CASE("nothing that fails, stands or waits: all of the time trains") {
  planner::Operations o;
  const result::Goodput g = planner::simulate_runs(o, campaign(), {});
  CHECK(g.effective.value == Approx(1).margin(1e-12));
  CHECK(g.interruptions.value == 0);
}

TEST_CASE("waiting for data takes its share of every step") {
  planner::Operations o;
  o.data_stall = 250ms;
  const result::Goodput g = planner::simulate_runs(o, campaign(), {});
  CHECK(g.effective.value == Approx(1 / 1.25).epsilon(1e-9));
  CHECK(sum_of(g) == Approx(1).margin(1e-9));
}

TEST_CASE("spare nodes end the wait for repairs") {
  planner::Operations o = plain(4h, 30s);
  o.failures = {{"host", Component::node, 1 / 400.0}};
  o.repair = 24h;
  planner::Campaign c = campaign();
  c.nodes = 100;
  const auto waited = [&](int spares) {
    o.spares = spares;
    const result::Goodput g = planner::simulate_runs(o, c, {});
    CHECK(sum_of(g) == Approx(1).margin(1e-9));
    return g.losses[3].second;
  };
  // Six hosts fail per day and return after one: without spare hosts the job waits most of the
  // time.
  CHECK(waited(0) > 0.7);
  CHECK(waited(4) < waited(0));
  CHECK(waited(30) == Approx(0).margin(1e-12));
}

TEST_CASE("a straggler slows every step until it is found") {
  planner::Operations o;
  o.stragglers = {1 / 100.0, 1.25, Seconds(10 * 3600.0)};
  const result::Goodput g =
      planner::simulate_runs(o, campaign(), {.duration = Seconds(400 * 86400.0)});
  // In ten of 110 hours hosts are slow, and 1 - 1 / 1.25 of that time is lost.
  CHECK(g.losses[4].second == Approx(10.0 / 110 * 0.2).epsilon(0.02));
}

TEST_CASE(
    "Llama 3's 54 days: its published rates give its interruptions and its effective training "
    "time") {
  const auto o =
      planner::read_operations(text::data_directory() / "configs" / "operations" / "default.yaml");
  planner::Campaign c;
  c.step = 10s;
  c.gpus = c.nics = 16384;
  c.nodes = 2048;
  c.checkpoint = 405e9 * 14;
  const result::Goodput g = planner::simulate_runs(o, c, {.duration = Seconds(54 * 86400.0)});
  CHECK(g.interruptions.low <= 419);
  CHECK(g.interruptions.high >= 419);
  CHECK(g.interruptions.value == Approx(419).epsilon(0.04));
  CHECK(g.effective.value > 0.9);  // "higher than 90 % effective training time"
  CHECK(g.effective.value < 0.97);
}

TEST_CASE("the same seed gives the same runs") {
  const auto o = plain(4h, 30s);
  const auto one = planner::simulate_runs(o, campaign(), {.seed = 7});
  const auto two = planner::simulate_runs(o, campaign(), {.seed = 7});
  const auto other = planner::simulate_runs(o, campaign(), {.seed = 8});
  CHECK(one.effective.value == two.effective.value);
  CHECK(one.effective.value != other.effective.value);
}

TEST_CASE("faults of an operations file have their places") {
  const test::Folder folder;
  const std::string path =
      folder.write("ops.yaml",
                   "detection: soon\nspares: -1\nfailure: []\n"
                   "failures:\n  - {name: GPU, of: cpu, per_hour: 1, source: us}\n");
  try {
    planner::read_operations(path);
    FAIL("no fault");
  } catch (const InputError& error) {
    REQUIRE(error.faults().size() == 4);
    CHECK(error.faults()[0].where.line == 1);
    CHECK(error.faults()[1].message == "spares is -1; expected 0 to 1000000 nodes");
    CHECK(error.faults()[2].message.find("unknown key 'failure'") == 0);
    CHECK(error.faults()[3].message == "'cpu' is not a component; expected gpu, nic, node or job");
    CHECK(error.faults()[3].where.line == 5);
  }
}

TEST_CASE("Checkpoints are written between steps") {
  auto o = plain(4h, 30s);
  planner::Campaign c = campaign();
  c.step = 7s;
  for (const double given : {0.0, 1.0, 10.0, 11.0, 1000.0}) {
    planner::GoodputRequest request;
    request.interval = Seconds(given);
    request.between_steps = true;
    const result::Goodput g = planner::simulate_runs(o, c, request);
    CHECK(g.steps == std::round(g.steps));
    CHECK(g.steps >= 1);
    CHECK(g.interval == g.steps * 7);
    if (given >= 7) {
      CHECK(std::abs(g.interval - given) <= 3.5);
    }
  }
}

TEST_CASE("One node fails as rarely as its share of the published cluster") {
  const auto o = planner::read_operations(STEPCAST_SOURCE_DIR "/configs/operations/default.yaml");
  planner::Campaign large = campaign();
  large.gpus = 16384;
  large.nodes = 2048;
  large.nics = 16384;
  planner::Campaign small = campaign();
  small.gpus = 8;
  small.nodes = 1;
  small.nics = 8;
  // 419 interruptions in 54 days (arXiv 2407.21783, table 5).
  CHECK(planner::failures_per_hour(o, large) * 54 * 24 == Approx(419).epsilon(0.01));
  CHECK(planner::failures_per_hour(o, small) * 2048 ==
        Approx(planner::failures_per_hour(o, large)).epsilon(1e-9));
}
