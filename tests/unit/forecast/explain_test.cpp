// Shares, remedies and gaps of an explanation, compared with numbers computed by hand.
#include "stepcast/forecast/explain.h"

#include <cmath>

#include "catch.hpp"
#include "stepcast/base/interval.h"

using namespace stepcast;
using forecast::explain;

namespace {

// 10 s; one deviation of the uncertainties adds 0.4, 0.3 and 0 s, together 0.5 s.
result::Report report() {
  result::Report r;
  r.doubts = {{"gemm", result::DoubtKind::curve, "g.yaml", 8, 0.05},
              {"network", result::DoubtKind::network, "n.yaml", 1, 0.3}};
  r.step_time = {10, 10 - kDeviations90 * 0.5, 10 + kDeviations90 * 0.5};
  return r;
}

}  // namespace

TEST_CASE("shares of the variance are the squares of what a deviation adds") {
  const auto e = explain(report());
  REQUIRE(e.doubts.size() == 2);
  CHECK(e.doubts[0].variance == Approx(0.16 / 0.25));
  CHECK(e.doubts[1].variance == Approx(0.09 / 0.25));
  CHECK_FALSE(e.measured);
}

TEST_CASE("the interval is halved by knowing three quarters of the variance, largest first") {
  const auto e = explain(report());
  // Without the first, 0.09 of 0.25 remains, which is more than a quarter; the second is needed as
  // well.
  REQUIRE(e.halve.size() == 2);
  CHECK(e.halve[0].what == "gemm");
  CHECK(e.halve[0].remaining == Approx(0.3 / 0.5));
  CHECK(e.halve[1].remaining == 0);
  CHECK_THAT(e.halve[0].how, ContainsSubstring("calibrate gpu"));
  CHECK_THAT(e.halve[1].how, ContainsSubstring("calibrate nccl"));
  result::Report one = report();
  one.doubts[1].deviation = 0.1;  // 0.01 in addition to 0.16, so the first alone is enough
  CHECK(explain(one).halve.size() == 1);
}

TEST_CASE("a gap is laid on each doubt alone, and on all by their variance") {
  const auto e = explain(report(), 11.0);
  REQUIRE(e.measured);
  CHECK(e.measured->deviations == Approx(2));
  CHECK_FALSE(e.measured->inside);  // 10.82 is the upper end
  CHECK(e.doubts[0].alone == Approx(1 / 0.4));
  CHECK(e.doubts[1].alone == Approx(1 / 0.3));
  CHECK(e.doubts[0].together == Approx(0.4 / 0.25));
  // All contributions together equal the gap.
  double sum = 0;
  for (const auto& d : e.doubts) {
    sum += d.together * d.doubt.added();
  }
  CHECK(sum == Approx(1.0));
  CHECK(explain(report(), 10.8).measured->inside);
  CHECK(explain(report(), 9.5).doubts[0].alone < 0);
}

TEST_CASE("without doubts a gap has no measure") {
  result::Report r;
  r.step_time = {10, 10, 10};
  const auto e = explain(r, 11.0);
  CHECK(e.doubts.empty());
  CHECK(e.halve.empty());
  CHECK(e.measured->deviations == 0);
  CHECK_FALSE(e.measured->inside);
}
