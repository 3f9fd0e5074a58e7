// Axes as typed, statements about all points together, and points from the store.
#include "stepcast/planner/sweep.h"

#include <random>

#include "catch.hpp"
#include "planner/sweep_finish.h"
#include "planner/sweep_keys.h"
#include "planner/sweep_point.h"
#include "support/folder.h"

using namespace stepcast;

namespace {

std::vector<std::string> values(const std::string& text) {
  std::vector<std::string> out;
  for (const auto& one : planner::sweep_axis("--vary", "k=" + text).values) {
    out.push_back(one.front());
  }
  return out;
}

std::string refusal(const std::vector<std::string>& texts) {
  try {
    planner::sweep_axes("--vary", texts);
  } catch (const InputError& error) {
    return to_string(error.faults().front());
  }
  return "";
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("Values are lists, ranges by steps and factors, and texts with brackets") {
  CHECK(values("8..1024*2") == Texts{"8", "16", "32", "64", "128", "256", "512", "1024"});
  CHECK(values("8..100*2") == Texts{"8", "16", "32", "64"});
  CHECK(values("1..4") == Texts{"1", "2", "3", "4"});
  CHECK(values("1..10+4") == Texts{"1", "5", "9"});
  CHECK(values("1..1.5+0.1") == Texts{"1", "1.1", "1.2", "1.3", "1.4", "1.5"});
  CHECK(values("1e3..4e3*2") == Texts{"1000", "2000", "4000"});
  CHECK(values("-2..0") == Texts{"-2", "-1", "0"});
  CHECK(values("7..7") == Texts{"7"});
  CHECK(values("1, 2 ,16..64*2") == Texts{"1", "2", "16", "32", "64"});
  CHECK(values("none,{uniform: 2, a: [1,2]},\"x,y\"") ==
        Texts{"none", "{uniform: 2, a: [1,2]}", "\"x,y\""});
  CHECK(values("[{rail: rail3, bandwidth: 0.5},{rail: rail4, down: true}],[]").size() == 2);
  CHECK(values("../dgx.yaml,./a..b.yaml") == Texts{"../dgx.yaml", "./a..b.yaml"});
}

TEST_CASE("Keys that change together take a value each") {
  const auto axis = planner::sweep_axis("--vary", "a.x,b=1:2,{k: 3}:4");
  CHECK(axis.keys == Texts{"a.x", "b"});
  CHECK(axis.values == std::vector<Texts>{{"1", "2"}, {"{k: 3}", "4"}});
}

TEST_CASE("What is no axis is refused by the option's name") {
  const auto says = [](const Texts& texts, const std::string& what) {
    INFO(texts.back());
    CHECK_THAT(refusal(texts), ContainsSubstring("--vary " + texts.back() + ": error: ") &&
                                   ContainsSubstring(what));
  };
  says({"cluster.nodes"}, "expected KEY=VALUE");
  says({"=1"}, "expected KEY=VALUE");
  says({"k="}, "expected KEY=VALUE");
  says({"k=1,,2"}, "a value is missing");
  says({"k=1,1"}, "1 is given twice");
  says({"k=8..1"}, "is not a range");
  says({"k=1..x"}, "is not a range");
  says({"k=1..8*1"}, "never ends");
  says({"k=0..8*2"}, "never ends");
  says({"k=1..8+0"}, "never ends");
  says({"k=1..1e9"}, "more than 1000000 values");
  says({"k=[1,2"}, "is not closed");
  says({"a,b=1:2,3"}, "is 1 values; expected 2");
  says({"a.b=1", "a=2"}, "set one key");
  says({"a=1..1000", "b=1..1000", "c=1,2"}, "more than 1000000 combinations");
  CHECK(refusal({"a=1..1000", "b=1..1000"}).empty());
  CHECK(refusal({"ab=1", "a=2"}).empty());
}

TEST_CASE("Combinations count through the last axis first") {
  const auto axes = planner::sweep_axes("--vary", {"a=1,2", "b,c=x:y,z:w,q:r"});
  REQUIRE(planner::combinations(axes) == 6);
  std::int64_t number = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t k = 0; k < 3; ++k) {
      const auto p = planner::combination(axes, number++);
      CHECK(p.at == std::vector<std::size_t>{i, k});
      CHECK(p.overrides == Texts{"a=" + axes[0].values[i][0], "b=" + axes[1].values[k][0],
                                 "c=" + axes[1].values[k][1]});
    }
  }
}

TEST_CASE("Front and efficiency are those of every point against every other") {
  std::mt19937 random(7);
  const auto draw = [&](int most) {
    return static_cast<int>(random() % static_cast<unsigned>(most));
  };
  for (int round = 0; round < 50; ++round) {
    result::Sweep s;
    s.axes = planner::sweep_axes("--vary", {"x=1..3", "n=1..4"});
    for (std::int64_t i = 0; i < planner::combinations(s.axes); ++i) {
      auto p = planner::combination(s.axes, i);
      p.ran = draw(6) > 0;
      p.fits.fits = p.ran && draw(4) > 0;
      p.gpus = p.ran ? 8 << p.at[1] : 0;
      p.tokens_per_second_per_gpu.value = 1 + draw(5);
      p.tokens_per_second = static_cast<double>(p.gpus) * p.tokens_per_second_per_gpu.value;
      p.gpu_hours_per_gigatoken = 1e9 / p.tokens_per_second_per_gpu.value / 3600;
      s.points.push_back(p);
    }
    planner::finish(s);
    REQUIRE(s.scaling_axis == 1);
    for (const auto& p : s.points) {
      bool beaten = !p.fits;
      const result::SweepPoint* least = nullptr;
      for (const auto& q : s.points) {
        beaten = beaten || (q.fits && q.tokens_per_second >= p.tokens_per_second &&
                            q.gpu_hours_per_gigatoken <= p.gpu_hours_per_gigatoken &&
                            (q.tokens_per_second > p.tokens_per_second ||
                             q.gpu_hours_per_gigatoken < p.gpu_hours_per_gigatoken));
        if (q.fits && q.at[0] == p.at[0] && (least == nullptr || q.gpus < least->gpus)) {
          least = &q;
        }
      }
      CHECK(p.on_front == !beaten);
      CHECK(p.efficiency.has_value() == (p.ran && least != nullptr));
      if (p.efficiency) {
        CHECK(*p.efficiency ==
              p.tokens_per_second_per_gpu.value / least->tokens_per_second_per_gpu.value);
      }
    }
  }
}

TEST_CASE("A point comes back from JSON to the last bit") {
  result::SweepPoint p;
  p.ran = true;
  p.key = "a\"b";
  p.reason = "x\\y\nz";
  p.strategy = {"parallelism.tensor=2", "memory.recompute={uniform: 2}"};
  p.nodes = 3;
  p.gpus = 24;
  p.step_time = {0.1 + 0.2, 1.0 / 3, 5e-324};
  p.tokens_per_second_per_gpu = {1, 2, 3};
  p.mfu.value = 0.4860353998722766;
  p.peak = {1e300, 0, std::numeric_limits<double>::infinity()};
  p.capacity = Bytes(84932978278);
  p.gpu_seconds = 7.1;
  result::SweepPoint back;
  planner::fill(back, planner::to_json(p));
  CHECK(planner::to_json(back) == planner::to_json(p));
  CHECK(back.key == p.key);
  CHECK(back.reason == p.reason);
  CHECK(back.strategy == p.strategy);
  CHECK(back.step_time.high == 5e-324);
  CHECK(back.peak.high == std::numeric_limits<double>::infinity());
  CHECK(back.capacity == p.capacity);
  CHECK_THROWS_AS(planner::fill(back, "{\"ran\": true}"), InputError);
}

TEST_CASE("A stored point is of one job, one value's file, one way to compute") {
  const test::Folder folder;
  planner::SweepRequest r;
  r.config = "llama8b-fsdp";
  const std::string model = folder.write("m.yaml", "{use: llama-3-8b, layers: 30}\n");
  r.axes = planner::sweep_axes("--vary", {"model=" + model, "workload.global_batch=8,16"});
  const Texts first = planner::combination(r.axes, 0).overrides;
  const std::string key = planner::SweepKeys(r).key(first);
  CHECK(planner::SweepKeys(r).key(first) == key);
  CHECK(planner::SweepKeys(r).key(planner::combination(r.axes, 1).overrides) != key);
  auto more = r;
  more.axes =
      planner::sweep_axes("--vary", {"model=llama-3-8b," + model, "workload.global_batch=8..64*2"});
  CHECK(planner::SweepKeys(more).key(first) == key);
  auto bound = r;
  bound.fidelity = forecast::Fidelity::bound;
  CHECK(planner::SweepKeys(bound).key(first) != key);
  auto set = r;
  set.overrides = {"workload.micro_batch=1"};
  CHECK(planner::SweepKeys(set).key(first) != key);
  folder.write("m.yaml", "{use: llama-3-8b, layers: 31}\n");
  CHECK(planner::SweepKeys(r).key(first) != key);
}
