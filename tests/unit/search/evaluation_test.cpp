// An evaluation that another process or the store returns equals the computed one.
#include "search/evaluation.h"

#include <limits>

#include "catch.hpp"
#include "stepcast/base/diagnostics.h"

using namespace stepcast;

TEST_CASE("An evaluation comes back from JSON to the last bit") {
  result::Strategy s;
  s.overrides = {"parallelism.tensor=2", "memory.recompute={uniform: 2}"};
  s.step_time = {0.1 + 0.2, 1.0 / 3, 5e-324};
  s.peak = {1e300, 0, std::numeric_limits<double>::infinity()};
  s.capacity = Bytes(84932978278);
  s.mfu = 0.4860353998722766;
  s.gpus = 16384;
  s.objective = 7.1;
  s.bubble_fraction = 0.25;
  s.fits = {true, std::nullopt, Bytes(7)};
  s.compute = Time{1}, s.recompute = Time{-2}, s.exposed = Time{3'000'000'000'007};
  search::Evaluation e;
  e.rule = s;
  s.fits = {false, 0.1 + 0.2, Bytes(-7)};
  s.peak.low = 17;
  e.exact = s;
  for (int pieces = 1; pieces < 4; ++pieces) {
    search::Evaluation some;
    if ((pieces & 1) != 0) {
      some.rule = e.rule;
    }
    if ((pieces & 2) != 0) {
      some.exact = e.exact;
    }
    const search::Evaluation back = search::evaluation_of(search::to_json(some), s.overrides);
    CHECK(search::to_json(back) == search::to_json(some));
    CHECK(back.rule.has_value() == some.rule.has_value());
    CHECK(back.exact.has_value() == some.exact.has_value());
    const result::Strategy& one = back.exact ? *back.exact : *back.rule;
    CHECK(one.overrides == s.overrides);
    CHECK(one.step_time.value == 0.1 + 0.2);
    CHECK(one.step_time.high == 5e-324);
    CHECK(one.peak.high == std::numeric_limits<double>::infinity());
    CHECK(one.exposed == s.exposed);
    CHECK(one.recompute == s.recompute);
    CHECK(one.fits.fits == !back.exact.has_value());
    CHECK(one.fits.probability == (back.exact ? std::optional(0.1 + 0.2) : std::nullopt));
    CHECK(one.fits.spare == Bytes(back.exact ? -7 : 7));
  }
  search::Evaluation not_run;
  not_run.memory = {1e300, 0.1 + 0.2, std::numeric_limits<double>::infinity()};
  const search::Evaluation again = search::evaluation_of(search::to_json(not_run), s.overrides);
  CHECK_FALSE(again.rule);
  CHECK(again.least_peak() == 0.1 + 0.2);
  CHECK(search::to_json(again) == search::to_json(not_run));
  search::Evaluation none;
  none.impossible = Infeasible{"parallelism.\"tensor\"", "a\\b\nc"};
  const auto back = search::evaluation_of(search::to_json(none), {});
  REQUIRE(back.impossible);
  CHECK(back.impossible->key == none.impossible->key);
  CHECK(back.impossible->reason == none.impossible->reason);
  CHECK_THROWS_AS(search::evaluation_of("{\"rule\": {\"mfu\": 1}}", {}), InputError);
}

TEST_CASE("The replay is asked of what may still be the answer alone") {
  result::Strategy s;
  s.objective = 2;
  s.peak = {12, 10, 14};
  search::Evaluation e;
  CHECK_FALSE(e.enough(1, 1));
  e.memory = s.peak;
  CHECK(e.enough(3, 9));         // its tensors alone do not fit, however long it takes
  CHECK_FALSE(e.enough(3, 10));  // how long is not known
  e.memory.reset();
  e.rule = s;
  CHECK_FALSE(e.enough(3, 20));
  CHECK(e.enough(2, 20));  // not faster than the best
  CHECK(e.enough(3, 9));   // its tensors alone do not fit
  e.exact = s;
  CHECK(e.enough(3, 20));
}
