#include "harness/statistics.h"

#include <limits>
#include <stdexcept>

#include "catch.hpp"
#include "stepcast/base/statistics.h"

using namespace stepcast::harness;
using stepcast::interpolated_quantile;

TEST_CASE("quantiles interpolate between order statistics") {
  const std::vector<double> sorted = {1, 2, 3, 4, 10};
  CHECK(interpolated_quantile(sorted, 0) == 1);
  CHECK(interpolated_quantile(sorted, 0.5) == 3);
  CHECK(interpolated_quantile(sorted, 0.1) == 1.4);
  CHECK(interpolated_quantile(sorted, 0.9) == Approx(7.6));
  CHECK(interpolated_quantile(sorted, 1) == 10);
  CHECK(interpolated_quantile({7}, 0.9) == 7);
}

TEST_CASE("a timing has the median and the spread of unordered samples") {
  const auto time = summarize({4, 1, 10, 3, 2});
  CHECK(time.median == 3);
  CHECK(time.p10 == Approx(1.4));
  CHECK(time.p90 == Approx(7.6));
  CHECK(time.samples == 5);
  CHECK(is_wide(time));
  CHECK_FALSE(is_wide(summarize({1, 1.1, 1.2, 1.0, 1.05})));
}

TEST_CASE("times that cannot be are refused") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_AS(summarize({}), std::runtime_error);
  CHECK_THROWS_AS(summarize({1, 0}), std::runtime_error);
  CHECK_THROWS_AS(summarize({1, -1}), std::runtime_error);
  CHECK_THROWS_AS(summarize({1, nan}), std::runtime_error);
  CHECK_THROWS_AS(summarize({1, std::numeric_limits<double>::infinity()}), std::runtime_error);
}
