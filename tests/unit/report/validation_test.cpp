// Validation as a page, as Markdown and as CSV; explanations as text.
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "stepcast/report/report.h"
#include "support/count.h"

using namespace stepcast;
using stepcast::test::count;

namespace {

result::ValidationRow row(const char* id, const char* metric, double published, double predicted) {
  result::ValidationRow r;
  r.id = id;
  r.file = "folder/some.jsonl";
  r.metric = metric;
  r.published = published;
  r.predicted = predicted;
  r.low = 0.9 * predicted;
  r.high = 1.1 * predicted;
  r.error = predicted / published - 1;
  r.step = 2;
  r.why = "compute 90 %";
  return r;
}

result::Validation validation() {
  result::Validation v;
  v.rows = {row("a<b>&\"c\"", "step_time", 2, 2.2), row("rate", "throughput", 100, 80),
            row("bytes", "peak_memory", 0x1p34, 0x1p34)};
  result::ValidationRow skipped = row("left out", "step_time", 0, 0);
  skipped.status = "skipped";
  skipped.reason = "not possible: x, \"y\"";
  v.rows.push_back(skipped);
  v.skips = {{"not possible", "cannot be", false, 1}};
  result::ValidationSummary s;
  s.file = "folder/some.jsonl";
  s.metric = "step_time";
  s.rows = 2;
  s.simulated = 1;
  v.summary = {s};
  return v;
}

}  // namespace

TEST_CASE("the page stands alone, escapes names and draws every measured row once") {
  const std::string page = report::html(validation());
  CHECK(page.find("http://") == std::string::npos);
  CHECK(page.find("https://") == std::string::npos);
  CHECK(page.find("src=") == std::string::npos);
  CHECK_THAT(page, ContainsSubstring("default-src 'none'"));
  CHECK(page.find("a<b>") == std::string::npos);
  CHECK_THAT(page, ContainsSubstring("a&lt;b&gt;&amp;&quot;c&quot;") &&
                       ContainsSubstring("prefers-color-scheme: dark"));
  // Two times and one size are each in a scatter plot; a rate is shown by the time that it is
  // derived from: 2 s x 80/100.
  CHECK(count(page, "<circle cx") - count(page, "<svg viewBox=\"-6") == 3);
  CHECK_THAT(page, ContainsSubstring("throughput: measured 1.6 s, predicted 2 "));
  CHECK(count(page, "<table") == count(page, "</table>"));
  CHECK(count(page, "<svg") == count(page, "</svg>"));
  CHECK(count(page, "<details>") == count(page, "</details>"));
}

TEST_CASE("CSV has a line a row and quotes what needs it") {
  const std::string text = report::csv(validation());
  CHECK(count(text, "\n") == 5);
  CHECK_THAT(text, ContainsSubstring("\"a<b>&\"\"c\"\"\"") &&
                       ContainsSubstring("\"not possible: x, \"\"y\"\"\""));
}

TEST_CASE("Markdown names the source, its worst rows and the reasons that are not accepted") {
  const std::string text = report::markdown(validation());
  CHECK_THAT(text, ContainsSubstring("| some | step_time | 2 | 1 (50.0 %) |") &&
                       ContainsSubstring("| some | -20.0 % | throughput | rate |") &&
                       ContainsSubstring("| 1 | not possible | no | cannot be |"));
}

TEST_CASE("names in cells are text, neither formulas nor HTML") {
  result::Validation v = validation();
  v.rows.front().id = "=HYPERLINK(\"http://x\")";
  v.skips.front().meaning = "<script>alert(1)</script> [x](y)";
  CHECK_THAT(report::csv(v), ContainsSubstring("\"'=HYPERLINK(\"\"http://x\"\")\""));
  const std::string text = report::markdown(v);
  CHECK(text.find("<script>") == std::string::npos);
  CHECK_THAT(text, ContainsSubstring("&lt;script&gt;alert(1)&lt;/script&gt; \\[x](y)"));
}

TEST_CASE("the terminal names sources of which too few rows are simulated") {
  const std::string text = report::terminal(validation(), false);
  CHECK_THAT(text, ContainsSubstring("Fewer than 95 % simulated") &&
                       ContainsSubstring("missing  not possible: x"));
}

TEST_CASE("an explanation says which factor can hardly explain a measured step") {
  result::Explanation e;
  e.title = "a job";
  e.step_time = {10, 9.2, 10.8};
  e.critical_path = {{"compute", 8}, {"tensor", 2}};
  e.curves = {{"gemm", "g.yaml", 8}};
  e.doubts = {{{"gemm", result::DoubtKind::curve, "g.yaml", 8, 0.05}, 0.64, 5, 3.2},
              {{"network", result::DoubtKind::network, "n.yaml", 1, 0.3}, 0.36, 6.7, 2.4}};
  e.halve = {{"gemm", "measure it", 0.6}};
  e.measured = result::MeasuredGap{12, 4, false};
  const std::string text = report::terminal(e, false);
  CHECK_THAT(text, ContainsSubstring("4.0 deviations slower than the forecast") &&
                       ContainsSubstring("No single factor explains it") &&
                       ContainsSubstring("'gemm' would be off by 3.2") &&
                       ContainsSubstring("measure it"));
  const auto json = nlohmann::json::parse(report::json(e));
  CHECK(json.at("doubts")[0].at("variance") == 0.64);
  CHECK(json.at("measured").at("inside") == false);
  e.measured->inside = true;
  CHECK_THAT(report::terminal(e, false), ContainsSubstring("it agrees with the forecast"));
  e.measured.reset();
  CHECK(nlohmann::json::parse(report::json(e)).at("measured").is_null());
}
