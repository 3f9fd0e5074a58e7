// Summaries of errors and intervals, compared with numbers computed by hand.
#include "catch.hpp"
#include "stepcast/validate/compare.h"

namespace {

using stepcast::result::ValidationRow;

ValidationRow row(const char* file, const char* metric, double published, double predicted,
                  double half_width) {
  ValidationRow r;
  r.id = std::string(file) + metric + std::to_string(predicted);
  r.file = file;
  r.metric = metric;
  r.published = published;
  r.predicted = predicted;
  r.low = predicted - half_width;
  r.high = predicted + half_width;
  r.error = (predicted - published) / published;
  return r;
}

}  // namespace

TEST_CASE("a summary counts errors by size, bias by sign and the worst by size with its sign") {
  const std::vector<ValidationRow> rows{row("a", "step_time", 100, 90, 20),
                                        row("a", "step_time", 100, 102, 1),
                                        row("a", "step_time", 100, 105, 10)};
  const auto summary = stepcast::validate::summarize(rows);
  REQUIRE(summary.size() == 1);
  const auto& s = summary.front();
  CHECK(s.rows == 3);
  CHECK(s.simulated == 3);
  CHECK(s.median == Approx(0.05));
  CHECK(s.mean == Approx((0.10 + 0.02 + 0.05) / 3));
  CHECK(s.bias == Approx((-0.10 + 0.02 + 0.05) / 3));
  CHECK(s.worst == Approx(-0.10));
  CHECK(s.worst_id == rows[0].id);
  CHECK(s.coverage == Approx(2.0 / 3));  // the second interval is [101, 103]
  // p90 is at position 1.8 of the sorted sizes 2, 5, 10 %.
  CHECK(s.p90 == Approx(0.05 + 0.8 * 0.05));
  // Interval score: widths of 40, 2 and 20, and a miss by 1 below the second interval, which counts
  // twenty-fold.
  CHECK(s.interval_score == Approx((0.40 + 0.02 + 20 * 0.01 + 0.20) / 3));
}

TEST_CASE("skipped rows and rows without a measurement are counted but not averaged") {
  std::vector<ValidationRow> rows{row("a", "mfu", 0.5, 0.45, 0.1), row("a", "mfu", 0.5, 0.5, 0.1),
                                  row("a", "mfu", 0.5, 0.5, 0.1)};
  rows[1].status = "skipped";
  rows[2].published = 0;
  const auto summary = stepcast::validate::summarize(rows);
  REQUIRE(summary.size() == 1);
  CHECK(summary[0].rows == 3);
  CHECK(summary[0].simulated == 1);
  CHECK(summary[0].mean == Approx(0.1));
}

TEST_CASE("several files get a summary each, and one over all per quantity") {
  const std::vector<ValidationRow> rows{row("a", "mfu", 1, 1.1, 0), row("b", "mfu", 1, 1.3, 0),
                                        row("b", "step_time", 1, 1.0, 0)};
  const auto summary = stepcast::validate::summarize(rows);
  REQUIRE(summary.size() == 5);
  CHECK(summary[3].file == "all");
  CHECK(summary[3].metric == "mfu");
  CHECK(summary[3].mean == Approx(0.2));
  CHECK(summary[4].metric == "step_time");
}
