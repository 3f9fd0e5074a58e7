// Two forecasts beside each other, from their JSON.
#include "stepcast/report/diff.h"

#include "catch.hpp"
#include "sample.h"
#include "stepcast/base/diagnostics.h"
#include "stepcast/report/report.h"

using namespace stepcast;

TEST_CASE("A diff has the figures that both forecasts have") {
  result::Report a = sample::report();
  a.job_json = R"({"parallelism": {"tensor": 4}})";
  result::Report b = a;
  b.job_json = R"({"parallelism": {"tensor": 8}})";
  b.fits.probability.reset();  // a bound
  const report::Diff d = report::diff({"a", report::json(a)}, {"b", report::json(b)});
  REQUIRE(d.keys.size() == 1);
  CHECK(d.keys[0].key == "parallelism.tensor");
  const std::string text = report::terminal(d, false, 100);
  CHECK_THAT(text, ContainsSubstring("step time") && ContainsSubstring("peak memory"));
  CHECK_THAT(text, !ContainsSubstring("probability"));
  const report::Diff same = report::diff({"a", report::json(a)}, {"a", report::json(a)});
  CHECK_THAT(report::terminal(same, false, 100), ContainsSubstring("fits, probability"));
}

TEST_CASE("A text without a step time is no forecast") {
  for (const char* text : {"", "{}", "[1]", R"({"step_time": 1, "job": {}})",
                           R"({"step_time": {"value": null}, "job": {}})"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(report::diff({"a", text}, {"b", text}), InputError);
  }
}
