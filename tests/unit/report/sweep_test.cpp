// A sweep as CSV, from which a typed table can be read, and as pictures.
#include "stepcast/report/sweep.h"

#include <map>

#include "catch.hpp"
#include "planner/sweep_finish.h"
#include "planner/sweep_point.h"
#include "stepcast/text/document.h"
#include "support/count.h"
#include "support/folder.h"

using namespace stepcast;
using stepcast::test::count;

namespace {

// Every seventh point is impossible, every fifth does not fit.
result::Sweep sample(const std::vector<std::string>& axes) {
  result::Sweep s;
  s.title = "job: <a> & \"b\"";
  s.axes = planner::sweep_axes("--vary", axes);
  for (std::int64_t i = 0; i < planner::combinations(s.axes); ++i) {
    auto p = planner::combination(s.axes, i);
    p.ran = i % 7 != 6;
    const bool fits = p.ran && i % 5 != 4;
    p.fits = {fits, fits ? 0.9 : 0.1, Bytes(fits ? 1 : -1)};
    if (!p.fits) {
      p.key = "memory";
      p.reason = "so, \"much\" of it";
    }
    if (p.ran) {
      p.gpus = 8 << p.at[0];
      p.step_time = {10.0 / static_cast<double>(i + 1), 1, 2};
      p.tokens_per_second_per_gpu.value = 100 + static_cast<double>(i);
      p.tokens_per_second = static_cast<double>(p.gpus) * p.tokens_per_second_per_gpu.value;
      p.gpu_hours_per_gigatoken = 1e9 / p.tokens_per_second_per_gpu.value / 3600;
      p.gpu_seconds = static_cast<double>(p.gpus) * p.step_time.value;
      p.strategy = {"parallelism.tensor=4", "memory.recompute=none"};
    }
    s.points.push_back(p);
  }
  planner::finish(s);
  return s;
}

const std::vector<std::string> kAxes = {"cluster.nodes=8..64*2", "x.ratio=1,1.5", "name=a,\"b,c\"",
                                        "x.on=true,false"};

bool reads_as(const std::string& cell, const std::string& type) {
  char* end = nullptr;
  if (type == "boolean") {
    return cell == "true" || cell == "false";
  }
  if (type == "int64") {
    static_cast<void>(std::strtoll(cell.c_str(), &end, 10));
    return *end == '\0';
  }
  if (type == "float64") {
    static_cast<void>(std::strtod(cell.c_str(), &end));
    return *end == '\0';
  }
  return type == "string";
}

}  // namespace

TEST_CASE("Every cell of a column is of the type that is stated, or empty") {
  const test::Folder folder;
  const result::Sweep s = sample(kAxes);
  const auto table = text::read_csv(folder.write("a.csv", report::csv(s)));
  const auto columns = text::read_csv(folder.write("c.csv", report::csv_columns(s)));
  REQUIRE(table.rows.size() == s.points.size());
  REQUIRE(table.columns.size() == columns.rows.size());
  std::map<std::string, std::string> types;
  for (std::size_t i = 0; i < columns.rows.size(); ++i) {
    CHECK(table.columns[i] == columns.rows[i][0]);
    types[columns.rows[i][0]] = columns.rows[i][1];
    for (const auto& row : table.rows) {
      INFO(table.columns[i] << ": " << row[i]);
      CHECK((row[i].empty() || reads_as(row[i], columns.rows[i][1])));
    }
  }
  CHECK(types.at("cluster.nodes") == "int64");
  CHECK(types.at("x.ratio") == "float64");
  CHECK(types.at("name") == "string");
  CHECK(types.at("x.on") == "boolean");
  CHECK(types.at("strategy.parallelism.tensor") == "int64");
  const auto at = [&](const char* name) { return static_cast<std::size_t>(table.column(name)); };
  for (std::size_t i = 0; i < s.points.size(); ++i) {
    const auto& row = table.rows[i];
    CHECK(row[at("point")] == std::to_string(i));
    CHECK(row[at("step_time")].empty() == !s.points[i].ran);
    CHECK(row[at("reason")] == s.points[i].reason);
  }
}

TEST_CASE("A picture has a mark for each point that runs, and closes what it opens") {
  const result::Sweep s = sample(kAxes);
  std::size_t ran = 0, fit = 0;
  for (const auto& p : s.points) {
    ran += p.ran ? 1 : 0;
    fit += p.fits ? 1 : 0;
  }
  CHECK(report::plot_of(s) == report::SweepPlot::scaling);
  const std::string scaling = report::svg(s, report::SweepPlot::scaling);
  CHECK(count(scaling, "<circle") == 2 * ran);  // throughput and efficiency
  const std::string heatmap = report::svg(s, report::SweepPlot::heatmap);
  CHECK(count(heatmap, "<title>") == s.points.size());
  const std::string pareto = report::svg(s, report::SweepPlot::pareto);
  CHECK(count(pareto, "<title>") == fit);
  for (const std::string& text : {scaling, heatmap, pareto}) {
    CHECK(count(text, "<svg") == count(text, "</svg>"));
    CHECK(count(text, "<text") == count(text, "</text>"));
    CHECK(count(text, "<g ") == count(text, "</g>"));
    CHECK(text.find("nan") == std::string::npos);
    CHECK(text.find("inf") == std::string::npos);
    CHECK(text.find("<a>") == std::string::npos);
    CHECK(text == report::svg(sample(kAxes), text == scaling   ? report::SweepPlot::scaling
                                             : text == heatmap ? report::SweepPlot::heatmap
                                                               : report::SweepPlot::pareto));
  }
}

TEST_CASE("The picture follows the axes") {
  CHECK(report::plot_of(sample({"a=x,y", "b=p,q"})) == report::SweepPlot::heatmap);
  CHECK(report::plot_of(sample({"a=x,y,z"})) == report::SweepPlot::pareto);
  CHECK_FALSE(report::lacks(sample({"a=x,y,z"}), report::SweepPlot::scaling).empty());
  CHECK_FALSE(report::lacks(sample({"a=1..9"}), report::SweepPlot::heatmap).empty());
  CHECK_FALSE(
      report::lacks(sample({"a=1,2", "b=1,2", "c=1..13"}), report::SweepPlot::heatmap).empty());
  // A single point, or none that fits, also gives a picture.
  for (const auto plot : {report::SweepPlot::scaling, report::SweepPlot::pareto}) {
    result::Sweep s = sample({"a=1,2"});
    for (auto& p : s.points) {
      p.ran = false;
      p.fits = {};
    }
    const std::string text = report::svg(s, plot);
    CHECK(text.find("nan") == std::string::npos);
    CHECK(text.find("inf") == std::string::npos);
  }
}
