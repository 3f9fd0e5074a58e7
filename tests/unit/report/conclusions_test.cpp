// The first sentence of each report, from results made by hand.
#include "catch.hpp"
#include "report/compare/compare_conclusion.h"
#include "report/memory/memory_conclusion.h"
#include "report/plan/plan_conclusion.h"
#include "report/profile/profile_conclusion.h"
#include "report/run/goodput_conclusion.h"
#include "report/search/search_conclusion.h"
#include "report/sweep/sweep_conclusion.h"
#include "report/validation/validation_conclusion.h"
#include "support/sizes.h"

using namespace stepcast;
using report::conclusion;
using test::kGiB;

namespace {

result::Fit certain(std::int64_t spare) {
  return {.fits = spare >= 0, .probability = spare >= 0 ? 1.0 : 0.0, .spare = Bytes(spare)};
}

result::Estimate just(double value) { return {value, value, value}; }

}  // namespace

TEST_CASE("conclusion: memory names the stage, its largest part and the fit") {
  result::MemoryTimeline m;
  m.capacity = Bytes(80 * kGiB);
  m.fits = certain(30 * kGiB);
  m.stages.resize(2);
  m.stages[1].stage = 1;
  m.stages[1].process = Bytes(50 * kGiB);
  m.stages[1].allocated = Bytes(40 * kGiB);
  m.stages[1].peak[static_cast<std::size_t>(program::MemoryCategory::activations)] = 30 * kGiB;
  m.stages[1].peak[static_cast<std::size_t>(program::MemoryCategory::parameters)] = 10 * kGiB;
  CHECK(conclusion(m) ==
        "Memory peaks at 50.0 of 80.0 GiB on stage 1 (75 % activations); it fits with 30.0 GiB to "
        "spare.");
}

TEST_CASE("conclusion: a search names what it chose, and says where nothing runs") {
  result::Search s;
  s.objective = "time";
  s.counts.candidates = 12;
  s.counts.impossible = 4;
  s.nearest = "1.5 GiB are missing";
  CHECK(conclusion(s) ==
        "None of the 8 possible strategies runs within memory: 1.5 GiB are missing.");
  s.counts.impossible = 12;
  s.nearest = "12 are refused by heads: 3 does not divide 32";
  CHECK(conclusion(s) ==
        "No combination of the space is possible for this job: 12 are refused by heads: 3 does not "
        "divide 32.");
  s.counts.impossible = 4;
  s.found = true;
  s.best.overrides = {"parallelism.tensor=2", "memory.recompute=full"};
  s.best.step_time = just(2);
  s.best.objective = 2;
  s.best.mfu = 0.4;
  s.best.fits = {.fits = true, .probability = 0.72, .spare = Bytes(kGiB / 2)};
  s.ranking = {s.best, s.best};
  s.ranking[1].overrides[0] = "parallelism.tensor=4";
  s.stated = 2.5;
  CHECK(conclusion(s) ==
        "tensor=2 is the fastest of 8 possible: 2.00 s a step at 40.0 % MFU, 20 % less time than "
        "the job as given; it likely fits (72 %, 0.5 GiB to spare); no other is better.");
}

TEST_CASE("conclusion: a sweep says what is fastest, what is cheapest and what is impossible") {
  result::Sweep s;
  s.points.resize(3);
  const auto point = [&](std::size_t i, const char* name, double step, double hours) {
    s.points[i].ran = true;
    s.points[i].fits = certain(kGiB);
    s.points[i].overrides = {name};
    s.points[i].step_time = just(step);
    s.points[i].mfu = just(0.4);
    s.points[i].gpu_hours_per_gigatoken = hours;
  };
  point(0, "cluster.nodes=1", 4, 75);
  point(1, "cluster.nodes=2", 2.5, 100);
  CHECK(
      conclusion(s) ==
      "cluster.nodes=2 is the fastest of 2 points that fit: 2.50 s a step at 40.0 % MFU; "
      "cluster.nodes=1 takes the fewest GPU-hours, 25 % less a token; 0 too large, 1 impossible.");
  s.points[0].fits = s.points[1].fits = certain(-kGiB);
  CHECK(conclusion(s) == "None of the 3 points fits: 2 too large, 1 impossible.");
}

TEST_CASE("conclusion: a plan names the best to rent and to buy, or what comes nearest") {
  result::Plan p;
  p.currency = "USD";
  p.clusters.resize(2);
  for (result::PlannedCluster& c : p.clusters) {
    c.simulated = c.meets = true;
    c.nodes = 8;
    c.gpus = 64;
    c.days = just(40);
    c.cost = just(2e6);
  }
  p.clusters[0].name = "own";
  p.clusters[0].bought = true;
  p.clusters[0].capital = 3e7;
  p.clusters[1].name = "cloud";
  p.clusters[1].figures = {{"rent", 1, "USD", "a list; unverified"}};
  const std::string text = conclusion(p);
  CHECK_THAT(text, ContainsSubstring("Rent 8 nodes of cloud (64 GPUs): 40"));
  CHECK_THAT(text, ContainsSubstring("(price unverified: check it), or buy 8 nodes of own"));
  CHECK_THAT(text, ContainsSubstring(", 2.00 M USD for this run, 30.0 M USD to buy"));
  CHECK_THAT(text, ContainsSubstring("2 of 2 offers within the limits."));
  CHECK_THAT(text, !ContainsSubstring("measured"));

  result::PlannedCluster sheet = p.clusters[1];
  sheet.name = "torus";
  sheet.device = "tpu";
  sheet.days = {31, 22, 40};
  sheet.basis = {{"datasheet", 0.7, 0.35, "data sheet"}, {"ici.yaml", 0.3, 0.5, "a book"}};
  p.clusters.insert(p.clusters.begin(), sheet);
  CHECK_THAT(conclusion(p),
             ContainsSubstring("Rent 8 nodes of torus") &&
                 ContainsSubstring(" Most kernels of tpu were not measured: 22.0 to 40.0 days; of "
                                   "measured devices the best is to rent 8 nodes of cloud"));
  p.clusters.erase(p.clusters.begin());
  for (result::PlannedCluster& c : p.clusters) {
    c.meets = false;
    c.shortfalls = {{result::PlanLimit::deadline, 0.04, "0.0 days over"}};
  }
  CHECK_THAT(conclusion(p), ContainsSubstring("own comes nearest: 0.04"));
}

TEST_CASE("conclusion: other reports") {
  result::Comparison c;
  c.systems.resize(3);
  for (const int i : {0, 1}) {
    result::ComparedSystem& s = c.systems[static_cast<std::size_t>(i)];
    s.name = i == 0 ? "first" : "second";
    s.ran = true;
    s.fits = certain(kGiB);
    s.step_time = just(2 + 0.5 * i);
    s.mfu = just(0.4);
  }
  CHECK(
      conclusion(c) ==
      "first is the fastest of 2 systems that fit: 2.00 s a step at 40.0 % MFU; second takes 25 % "
      "more than that; 0 too large, 1 cannot run it.");

  result::Goodput g;
  g.effective = just(0.9);
  g.days = 54;
  g.losses = {{"checkpoints", 0.02}, {"restart", 0.08}};
  g.interruptions = just(10);
  g.mean_time_between_failures = 3 * 3600;
  CHECK_THAT(conclusion(g), ContainsSubstring("Training is 90.0 % of 54"));
  CHECK_THAT(conclusion(g), ContainsSubstring("most of the rest is restart (8.0 %); a failure "
                                              "interrupts it every 3"));

  report::Diff d;
  d.a = "one";
  d.b = "two";
  d.figures = {{"step time", "s", 4, 1}};
  d.keys = {{"model.layers", "1", "2"}};
  CHECK(conclusion(d) == "two takes 1.00 s a step, 75 % less than one; 1 key of the job differs.");
  d.figures = {{"step time", "s", 1, 4}};
  CHECK_THAT(conclusion(d), ContainsSubstring("4.00 s a step, 4.00 times that of one"));

  result::TraceProfile t;
  CHECK(conclusion(t) == "No device did anything in this profile.");
  result::TraceDevice device;
  device.share = {
      .span = Time(100), .compute = Time(60), .communication = Time(10), .idle = Time(30)};
  t.ranks.resize(1);
  t.ranks[0].devices = {device};
  CHECK_THAT(conclusion(t), ContainsSubstring("60 % of it computes, 30 % idle, 10 % exposed "
                                              "communication."));

  result::Validation v;
  CHECK(conclusion(v) == "None of the 0 measurements could be forecast.");
  v.rows.resize(2);
  for (result::ValidationRow& row : v.rows) {
    const bool first = &row == v.rows.data();
    row.id = first ? "a" : "b";
    row.published = first ? 1 : 2;
    row.low = 0.9;
    row.high = 1.1;
    row.error = first ? 0.02 : -0.5;
  }
  CHECK_THAT(conclusion(v),
             ContainsSubstring("Half of the 2 measurements are forecast within 26.0 %, "
                               "50.0 % inside their 90 % interval; the worst is b"));
}
