// A plan's page: its table has every cluster, with the goals that the cluster misses.
#include <fmt/format.h>

#include "catch.hpp"
#include "stepcast/report/plan.h"
#include "support/count.h"

using namespace stepcast;
using stepcast::test::count;

namespace {

// One cluster meets the deadline, one is late, and one cannot run the job.
result::Plan sample() {
  result::Plan p;
  p.title = "llama <on> clusters";
  p.objective = "cost";
  p.catalogue = "default";
  p.currency = "USD";
  p.tokens = 1e12;
  p.limits.days = 30;
  for (int n = 0; n < 3; ++n) {
    result::PlannedCluster c;
    c.name = fmt::format("offer-{}", n);
    c.device = "h100-sxm";
    c.meets = n == 0;
    c.simulated = n < 2;
    if (c.simulated) {
      c.nodes = 8 << n;
      c.gpus = 8 * c.nodes;
      c.fits = {true, 0.9, Bytes(1)};
      c.overrides = {fmt::format("cluster.nodes={}", c.nodes), "parallelism.tensor=8"};
      c.days = {20.0 + 20 * n, 18.0 + 20 * n, 22.0 + 20 * n};
      c.cost = {2e6, 1.8e6, 2.2e6};
      c.energy = {3.6e12, 3.5e12, 3.7e12};
      c.carbon = result::Estimate{4e5, 3e5, 5e5};
      c.counts = {{c.nodes, c.fits, c.meets, c.days.value, 2e6, 3.6e12, 1e6}};
      c.figures = {{"rent", 2.5, "USD/GPU-hour", "a <list>"}};
    }
    if (n == 1) {
      c.shortfalls = {{result::PlanLimit::deadline, 10, "10.0 days over"}};
    } else if (n == 2) {
      c.shortfalls = {{result::PlanLimit::strategy, 0, "no strategy runs: a & b"}};
    }
    p.clusters.push_back(c);
  }
  return p;
}

}  // namespace

TEST_CASE("A plan's page shows the best first, all clusters, and what each lacks") {
  const std::string page = report::html(sample());
  CHECK_THAT(page, ContainsSubstring("data-figure=\"meeting\" data-value=\"1\""));
  CHECK_THAT(page, ContainsSubstring("data-figure=\"cost\" data-value=\"2000000\""));
  CHECK_THAT(page, ContainsSubstring("10.0 days over"));
  CHECK_THAT(page, ContainsSubstring("no strategy runs: a &amp; b"));
  CHECK_THAT(page, ContainsSubstring("a &lt;list&gt;"));
  CHECK(page.find("<on>") == std::string::npos);
  CHECK(count(page, "class=\"dot") == 2);  // a cluster that cannot run is not drawn
  CHECK_THAT(page, ContainsSubstring("deadline, 30 days"));
}

TEST_CASE("A plan's page begins with the best to rent and the best to buy") {
  result::Plan p = sample();
  CHECK(report::html(p).find("Best to buy") == std::string::npos);
  // A purchase is the first, since this run bears a part of it alone.
  result::PlannedCluster own = p.clusters.front();
  own.name = "own";
  own.bought = true;
  own.capital = 3e7;
  own.cost = {1e6, 9e5, 1.1e6};
  p.clusters.insert(p.clusters.begin(), own);
  const std::string page = report::html(p);
  const std::size_t rent = page.find("Best to rent");
  const std::size_t buy = page.find("Best to buy");
  REQUIRE(rent != std::string::npos);
  REQUIRE(buy != std::string::npos);
  CHECK(rent < buy);
  CHECK(page.find("Cost of this run, USD") > buy);
  CHECK_THAT(page, ContainsSubstring("bought for 30.0 M"));
  CHECK(count(page, "data-figure=\"meeting\"") == 1);
}

TEST_CASE("A plan that nothing meets says so on its page") {
  result::Plan p = sample();
  p.clusters.erase(p.clusters.begin());
  const std::string page = report::html(p);
  CHECK_THAT(page, ContainsSubstring("data-figure=\"meeting\" data-value=\"0\""));
  CHECK_THAT(page, ContainsSubstring("0 of 2"));
  // No remaining cluster can run, so there is nothing to draw.
  p.clusters.erase(p.clusters.begin());
  CHECK(count(report::html(p), "class=\"dot") == 0);
}

TEST_CASE(
    "A plan's picture has a dot for each cluster with a cost, hollow where a limit is missed") {
  const std::string picture = report::svg(sample());
  CHECK(count(picture, "<circle") == 2);
  CHECK(count(picture, "class=\"dot\"") == 1);
  CHECK(count(picture, ">offer-0</text>") == 1);
  CHECK(count(picture, "llama &lt;on&gt; clusters") == 1);
  result::Plan free = sample();
  for (result::PlannedCluster& c : free.clusters) {
    c.priced = false;
  }
  CHECK(count(report::svg(free), "<circle") == 0);
  CHECK(count(report::svg(result::Plan{}), "</svg>") == 1);
}

TEST_CASE("A plan calls TPUs chips, and GPUs by their name") {
  result::Plan p = sample();
  CHECK_THAT(report::terminal(p, false), ContainsSubstring("GPUs compute for") &&
                                             ContainsSubstring("GPU-hours") &&
                                             !ContainsSubstring("chip"));
  for (result::PlannedCluster& c : p.clusters) {
    c.device = "tpu-v5p";
    c.chips = true;
  }
  for (const std::string& text : {report::terminal(p, false), report::html(p)}) {
    CHECK_THAT(text, ContainsSubstring("chips compute for") && ContainsSubstring("chip-hours") &&
                         !ContainsSubstring("GPUs compute"));
  }
}
