// Plans: the cost of a run in closed form, and that a looser limit never removes an option.
#include "stepcast/planner/plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "../../support/folder.h"
#include "catch.hpp"
#include "stepcast/base/calendar.h"
#include "stepcast/base/diagnostics.h"
#include "stepcast/config/config.h"
#include "stepcast/report/plan.h"
#include "stepcast/text/document.h"

using namespace stepcast;
using planner::Seconds;

namespace {

planner::Figure figure(double value) { return {value, "a test"}; }

// Machines whose hosts use no power.
planner::Rates bare() {
  planner::Rates r;
  r.device = {figure(50), figure(200), figure(400)};
  r.site.pue = figure(1.25);
  r.site.carbon = figure(100);
  r.site.electricity = figure(0.1);
  return r;
}

planner::Duty busy(double hours) {
  planner::Duty d;
  d.training = Seconds(hours * kHour);
  return d;
}

// Three offers with few nodes: expensive and fast, cheap and slow, and bought.
planner::Catalogue small() {
  planner::Catalogue c =
      planner::read_catalogue(text::data_directory() / "configs/catalogue/default.yaml");
  std::vector<planner::Offer> offers;
  for (const planner::Offer& o : c.offers) {
    if (o.name == "aws-p5" || o.name == "oci-a100" || o.name == "own-dgx-b200") {
      offers.push_back(o);
      offers.back().nodes.value = 4;
    }
  }
  c.offers = offers;
  return c;
}

struct Job {
  test::Folder folder;
  planner::PlanRequest request;
  Job() {
    request.config = folder.write(
        "job.yaml",
        "model: tiny-llama-1.1b\ncluster: {use: dgx-a100, nodes: 1}\nsystem: megatron-lm\n"
        "workload: {sequence_length: 2048, global_batch: 64, micro_batch: 1}\n");
    request.tokens = 20e9;
    request.catalogue = small();
    request.space = text::parse_yaml("tensor: [1, 2]\nmicro_batch: [1, 2]\n", "space");
  }
  result::Plan plan() const { return planner::plan(request, text::data_directory()); }
};

std::map<std::string, result::PlannedCluster> meeting(const result::Plan& p) {
  std::map<std::string, result::PlannedCluster> out;
  for (const auto& c : p.clusters) {
    if (c.meets) {
      out.emplace(c.name, c);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("a rented run costs GPUs x hours x price") {
  planner::Rates r = bare();
  r.offer.rent = figure(3);
  const planner::Bill b = planner::bill(r, 10, 8, busy(100));
  CHECK(b.gpu_hours == Approx(10 * 8 * 100));
  CHECK(b.cost() == Approx(10 * 8 * 100 * 3));
  CHECK(b.expenses.electricity == 0);
  CHECK(b.capital == 0);
}

TEST_CASE("a cap on the GPUs' power lowers what a run draws") {
  const planner::Rates r = bare();
  job::Job job;
  job.workload.global_batch = job.workload.sequence_length = 1;
  job.cluster.node.gpus = 8;
  planner::Pace pace;
  pace.active = pace.busy = 1;
  const auto of = [&](double watts) {
    job.cluster.device.power = Power(watts);
    return planner::bill(r, job, 10, 1000, pace, 1, 1);
  };
  const planner::Bill open = of(0);
  CHECK(open.peak_power == Approx(10 * 8 * 400 * 1.25));
  CHECK(of(700).energy == open.energy);  // it never draws so much
  const planner::Bill capped = of(300);
  CHECK(capped.peak_power == Approx(open.peak_power * 300 / 400));
  CHECK(capped.energy == Approx(open.energy * 300 / 400));
}

TEST_CASE("a bought run costs its share of the lifetime, and electricity") {
  planner::Rates r = bare();
  r.offer.purchase = figure(300000);
  r.offer.fabric = figure(50000);
  r.offer.lifetime = figure(4);
  const planner::Bill b = planner::bill(r, 10, 8, busy(4 * 365.25 * 24));  // the whole lifetime
  CHECK(b.capital == Approx(10 * 350000.0));
  CHECK(b.expenses.depreciation == Approx(b.capital));
  CHECK(b.expenses.electricity == Approx(b.energy / 3.6e6 * 0.1));
  CHECK(b.expenses.rent == 0);
}

TEST_CASE("owning costs more than machines and electricity: each by its own closed form") {
  planner::Rates r = bare();
  r.offer.purchase = figure(300000);
  r.offer.lifetime = figure(4);
  const double year = 365.25 * 24;
  const planner::Bill plain = planner::bill(r, 10, 8, busy(year));
  CHECK(plain.expenses.interest + plain.expenses.colocation + plain.expenses.staff == 0);
  r.site.utilisation = figure(0.5);
  r.site.interest = figure(0.1);
  r.site.colocation = figure(100);
  r.site.staff = figure(2000);
  const planner::Bill b = planner::bill(r, 10, 8, busy(year));  // held for two years
  CHECK(b.expenses.depreciation == Approx(2 * plain.expenses.depreciation));
  CHECK(b.expenses.interest == Approx(b.capital / 2 * 0.1 * 2));
  CHECK(b.expenses.colocation == Approx(b.peak_power / 1000 * 100 * 24));
  CHECK(b.expenses.staff == Approx(10 * 2000 * 2));
  CHECK(b.expenses.electricity == Approx(plain.expenses.electricity));
  CHECK(b.cost() == Approx(b.expenses.sum()));
}

TEST_CASE("the energy of a job that never waits is load x time x PUE") {
  const planner::Bill b = planner::bill(bare(), 10, 8, busy(100));
  CHECK(b.energy == Approx(10 * 8 * 400.0 * 100 * kHour * 1.25));
  CHECK(b.average_power == Approx(b.peak_power));
  CHECK(b.carbon == Approx(b.energy / 3.6e6 * 0.1));  // 100 g per kWh
}

TEST_CASE("busy, communicating and idle share a GPU's step; a host adds to it") {
  planner::Rates r = bare();
  r.host = {figure(1000), figure(2000), figure(3000), figure(500)};
  planner::Duty d = busy(100);
  d.busy = 0.5;
  d.communicating = 0.25;
  d.effective = 0.8;
  d.active = 0.9;
  const planner::Bill b = planner::bill(r, 2, 8, d);
  const double working = 8 * (0.5 * 400 + 0.25 * 200 + 0.25 * 50) + 2000 + 500;
  const double waiting = 8 * 50.0 + 1000 + 500;
  CHECK(b.wall.count() == Approx(100 * kHour / 0.8));
  CHECK(b.average_power == Approx(2 * (0.9 * working + 0.1 * waiting) * 1.25));
  CHECK(b.energy == Approx(b.average_power * b.wall.count()));
  CHECK(b.peak_power == Approx(2 * (8 * 400.0 + 3000 + 500) * 1.25));
}

TEST_CASE("durations outlast what Time holds") {
  CHECK(planner::parse_duration("400 d").count() == 400 * kDay);
  CHECK(planner::parse_duration("1.5d").count() == 1.5 * kDay);
  CHECK(planner::parse_duration("90 min").count() == 5400);
  CHECK_THROWS_AS(planner::parse_duration("-1d"), std::invalid_argument);
  CHECK_THROWS_AS(planner::parse_duration("soon"), std::invalid_argument);
}

TEST_CASE("a longer deadline takes no cluster away and makes none dearer") {
  Job job;
  std::map<std::string, result::PlannedCluster> before;
  for (const double days : {0.5, 2.0, 4.0, 30.0}) {
    job.request.limits.days = days;
    const auto now = meeting(job.plan());
    for (const auto& [name, c] : before) {
      INFO(name << " at " << days << " days");
      REQUIRE(now.count(name) == 1);
      CHECK(now.at(name).cost.value <= c.cost.value);
      CHECK(now.at(name).proven);
    }
    for (const auto& [name, c] : now) {
      CHECK(c.days.value <= days);
    }
    before = now;
  }
  CHECK(before.size() == 3);
}

TEST_CASE("a larger budget or power takes no cluster away") {
  Job job;
  const auto grows = [&](double result::PlanLimits::*limit, std::vector<double> values) {
    std::set<std::string> before;
    for (const double value : values) {
      job.request.limits = {};
      job.request.limits.*limit = value;
      std::set<std::string> now;
      for (const auto& [name, c] : meeting(job.plan())) {
        now.insert(name);
      }
      for (const std::string& name : before) {
        CHECK(now.count(name) == 1);
      }
      before = now;
    }
    return before.size();
  };
  CHECK(grows(&result::PlanLimits::budget, {1, 500, 1500, 1e6}) == 3);
  CHECK(grows(&result::PlanLimits::watts, {1, 10e3, 13e3, 1e6}) == 3);
}

TEST_CASE("what misses the limits says by how much, in what limits") {
  Job job;
  job.request.limits = {0.001, 1, 1000};
  for (const auto& c : job.plan().clusters) {
    CHECK_FALSE(c.meets);
    REQUIRE(c.shortfalls.size() == 3);
    CHECK(c.shortfalls[0].limit == result::PlanLimit::deadline);
    CHECK(c.shortfalls[0].by == Approx(c.days.value - 0.001));
    CHECK(c.shortfalls[1].by == Approx(c.cost.value - 1));
    CHECK(c.shortfalls[2].by == Approx(c.peak_power - 1000));
  }
}

TEST_CASE("days before a cluster is there count against the deadline") {
  Job job;
  job.request.limits.days = 30;
  job.request.start = "2023-06-01";  // aws-p5: July 2023; own-dgx-b200: December 2024
  const auto in_time = meeting(job.plan());
  CHECK(in_time.count("oci-a100") == 1);
  CHECK(in_time.count("aws-p5") == 0);  // available 30 days later, before it even starts to train
  CHECK(in_time.count("own-dgx-b200") == 0);
}

TEST_CASE("the plan is the same on any number of threads, and without failures no dearer") {
  Job job;
  job.request.limits.days = 4;
  job.request.threads = 1;
  const std::string one = report::json(job.plan());
  job.request.threads = 3;
  CHECK(report::json(job.plan()) == one);
  const auto without = meeting(job.plan());
  const planner::Operations operations =
      planner::read_operations(text::data_directory() / "configs/operations/default.yaml");
  job.request.operations = &operations;
  for (const auto& [name, c] : meeting(job.plan())) {
    REQUIRE(without.count(name) == 1);
    CHECK(c.cost.value >= without.at(name).cost.value);
    CHECK(c.effective.value < 1);
  }
}

TEST_CASE("what is proven is the best of what each strategy by itself comes to") {
  Job job;
  const planner::Operations operations =
      planner::read_operations(text::data_directory() / "configs/operations/default.yaml");
  job.request.operations = &operations;
  job.request.limits.days = 3;
  std::map<std::string, double> least;
  for (const char* tensor : {"1", "2"}) {
    for (const char* micro_batch : {"1", "2"}) {
      job.request.overrides = {std::string("parallelism.tensor=") + tensor,
                               std::string("workload.micro_batch=") + micro_batch};
      for (const auto& [name, c] : meeting(job.plan())) {
        const auto [at, fresh] = least.emplace(name, c.objective);
        at->second = std::min(at->second, c.objective);
      }
    }
  }
  job.request.overrides.clear();
  const auto all = meeting(job.plan());
  REQUIRE(all.size() == least.size());
  for (const auto& [name, c] : all) {
    CHECK(c.proven);
    CHECK(c.objective == Approx(least.at(name)));
  }
}

TEST_CASE("strategies of the space that the job's own overrides rule out are left out") {
  Job job;
  job.request.overrides = {"parallelism.pipeline=1"};
  job.request.space = text::parse_yaml("tensor: [1, 2]\nvirtual_pipeline: [1, 2]\n", "space");
  for (const auto& c : job.plan().clusters) {
    CHECK(c.simulated);
    CHECK(c.proven);
  }
}

TEST_CASE("offers of clusters that differ by nothing but their names come to the same") {
  Job job;
  planner::Offer twin;
  for (const planner::Offer& o : job.request.catalogue.offers) {
    twin = o.name == "aws-p5" ? o : twin;
  }
  twin.name = "twin";
  twin.rent->value *= 2;
  job.request.catalogue.offers.push_back(twin);
  const auto all = meeting(job.plan());
  REQUIRE(all.count("twin") == 1);
  CHECK(all.at("twin").overrides == all.at("aws-p5").overrides);
  CHECK(all.at("twin").cost.value == Approx(2 * all.at("aws-p5").cost.value));
}

TEST_CASE("nodes beyond one slice of a torus are slices, and whole ones") {
  planner::Offer o;
  CHECK(o.slices(1000) == 1);  // no slice is stated
  o.slice = figure(64);
  CHECK(o.slices(48) == 1);
  CHECK(o.slices(64) == 1);
  CHECK_FALSE(o.slices(96).has_value());
  CHECK(o.slices(256) == 4);

  Job job;
  const auto all =
      planner::read_catalogue(text::data_directory() / "configs/catalogue/default.yaml");
  job.request.catalogue.offers.clear();
  for (planner::Offer tpu : all.offers) {
    if (tpu.name == "gcp-tpu-v6e") {
      tpu.nodes.value = 4;
      tpu.name = "one slice";
      job.request.catalogue.offers.push_back(tpu);
      tpu.slice->value = 2;
      tpu.name = "two slices";
      job.request.catalogue.offers.push_back(tpu);
    }
  }
  job.request.objective = planner::PlanObjective::time;
  const auto plans = meeting(job.plan());
  REQUIRE(plans.size() == 2);
  const auto& one = plans.at("one slice");
  const auto& two = plans.at("two slices");
  REQUIRE(one.nodes == 4);
  REQUIRE(two.nodes == 4);
  const auto has = [](const result::PlannedCluster& c, const char* text) {
    return std::count(c.overrides.begin(), c.overrides.end(), text) == 1;
  };
  CHECK(has(two, "cluster.fabric.slices=2"));
  CHECK_FALSE(has(one, "cluster.fabric.slices=1"));
  CHECK(two.step_time.value > one.step_time.value);  // gradients meet over the hosts' adapters
}

TEST_CASE("no job of a model trains a larger share of the wall clock than the bound says") {
  const planner::Operations operations =
      planner::read_operations(text::data_directory() / "configs/operations/default.yaml");
  job::Job job = config::load("llama405b", {}).job;
  planner::MostEffective most(&operations, job);
  result::Report report;
  for (const int nodes : {64, 2048}) {
    job.cluster.nodes = nodes;
    const double bound = most.on(nodes);
    for (const double step : {1.0, 5.0, 60.0, 600.0}) {
      report.step_time = {step, step, step};
      CHECK(planner::pace_of(job, report, &operations).effective.value <= bound);
    }
    report.step_time = {0.5, 0.5, 0.5};  // shorter than the interval between checkpoints
    CHECK(planner::pace_of(job, report, &operations).effective.value ==
          Approx(bound).epsilon(1e-5));
  }
}

TEST_CASE("a job too large for every GPU says how much memory it lacks") {
  Job job;
  job.request.overrides = {"model=llama-3.1-405b"};
  job.request.catalogue.offers.resize(1);
  const result::Plan p = job.plan();
  REQUIRE(p.clusters.size() == 1);
  const auto& c = p.clusters.front();
  CHECK_FALSE(c.meets);
  REQUIRE_FALSE(c.shortfalls.empty());
  CHECK(c.shortfalls.front().text.find("GiB") != std::string::npos);
}

TEST_CASE("a cluster without a price comes last; every step says what it rests on") {
  Job job;
  for (planner::Offer& o : job.request.catalogue.offers) {
    if (o.name == "oci-a100") {
      o.rent.reset();
      o.unpriced = "nobody stated one";
    }
  }
  const result::Plan p = job.plan();
  REQUIRE(p.clusters.size() == 3);
  CHECK(p.clusters.back().name == "oci-a100");
  CHECK_FALSE(p.clusters.back().priced);
  const auto& figures = p.clusters.back().figures;
  CHECK(std::any_of(figures.begin(), figures.end(), [](const result::PlanFigure& f) {
    return f.name == "rent" && f.source == "nobody stated one";
  }));
  for (const result::PlannedCluster& c : p.clusters) {
    INFO(c.name);
    double all = 0;
    for (const result::PlanBasis& b : c.basis) {
      CHECK_FALSE(b.file.empty());
      all += b.share;
    }
    CHECK(all == Approx(1));
  }
}
