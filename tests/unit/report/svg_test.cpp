// Pictures of forecasts and searches.
#include <regex>

#include "catch.hpp"
#include "sample.h"
#include "support/count.h"

using namespace stepcast;
using stepcast::test::count;

namespace {

// The sum of the widths of the rectangles that have a title.
double widths(const std::string& picture) {
  const std::regex box("width=\"([0-9.]+)\" height=\"[0-9]+\" fill=\"[^\"]*\"><title>");
  double sum = 0;
  for (std::sregex_iterator it(picture.begin(), picture.end(), box), end; it != end; ++it) {
    sum += std::stod((*it)[1]);
  }
  return sum;
}

result::Strategy strategy(double gibibytes, double seconds, const char* tensor) {
  result::Strategy s;
  s.overrides = {std::string("parallelism.tensor=") + tensor, "memory.recompute=none"};
  s.peak = {gibibytes * (1 << 30), 0, 0};
  s.objective = seconds;
  return s;
}

}  // namespace

TEST_CASE("A forecast's picture has a bar a stage, whose parts fill the step") {
  const result::Report r = sample::report();
  const std::string picture = report::svg(r);
  CHECK(count(picture, "<title>compute ") == 2);
  CHECK(count(picture, "<title>context ") == 1);
  CHECK_THAT(picture, ContainsSubstring("MFU 41.7 %"));
  // Both stages take one second, so both bars have the whole width, up to the decimals written.
  CHECK(widths(picture) == Approx(2 * 760).epsilon(1e-3));
  result::Report hostile = r;
  hostile.title = "<script>";
  CHECK(count(report::svg(hostile), "<script") == 0);
  hostile.breakdown.clear();
  CHECK(count(report::svg(hostile), "</svg>") == 1);
}

TEST_CASE("A search's picture has the ranking and the front, and says which is best") {
  result::Search s;
  s.title = "a <job>";
  s.objective = "time";
  CHECK_THAT(report::svg(s), ContainsSubstring("no strategy fits"));
  s.found = true;
  s.ranking = {strategy(60, 1.5, "4"), strategy(70, 2.0, "2")};
  s.front = {{20.0 * (1 << 30), strategy(20, 3.0, "8")}, {60.0 * (1 << 30), s.ranking[0]}};
  s.best = s.ranking[0];
  const std::string picture = report::svg(s);
  CHECK(count(picture, "<circle") == 4);
  CHECK_THAT(picture, ContainsSubstring("best: 1.50 s; tp 4<"));
  CHECK(count(picture, ">tp 8</text>") == 1);
  CHECK(count(picture, "recompute") == 0);  // "none" goes without saying
}
