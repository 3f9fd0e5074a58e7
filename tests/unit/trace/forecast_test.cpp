// A forecast in the terms of a profile is the forecast's own report.
#include "stepcast/trace/forecast.h"

#include "catch.hpp"
#include "stepcast/forecast/forecaster.h"
#include "stepcast/input/input.h"
#include "stepcast/text/document.h"

using namespace stepcast;

namespace {

result::Report forecast_of(const std::string& config) {
  forecast::Forecaster forecaster(text::data_directory());
  forecast::Options options;
  options.trace = true;
  return std::get<result::Report>(forecaster.forecast(input::load(config, {}).job, options));
}

Time kind(const result::TraceStep& step, const std::string& name) {
  for (const result::TraceKind& k : step.kinds) {
    if (k.kind == name) {
      return k.time;
    }
  }
  return Time(0);
}

}  // namespace

TEST_CASE("a forecast divided as a profile is adds up to its own breakdown") {
  const result::Report report = forecast_of("llama8b-fsdp");
  const auto step = trace::forecast_step(report, 0);
  REQUIRE(step);
  const result::TraceShare& s = step->share;
  CHECK(to_seconds(s.span) == Approx(report.step_time.value));
  CHECK(s.compute + s.communication + s.copy + s.host_bound + s.idle == s.span);
  const result::StageBreakdown& b = report.breakdown.at(0);
  CHECK(to_seconds(s.compute) ==
        Approx(to_seconds(b.compute + b.recompute + b.slowdown + b.optimizer)).epsilon(1e-6));
  for (const result::Traffic& row : report.traffic) {
    INFO(row.op);
    // A kernel of communication runs from its arrival on, its transfer begins later.
    CHECK(kind(*step, row.op.substr(0, row.op.find(' '))) >= row.time - Time(1000));
  }
  CHECK(!trace::forecast_step(report, 1));
}

TEST_CASE("a profile with the forecast's own times differs from it by nothing") {
  const result::Report report = forecast_of("llama8b-fsdp");
  const auto step = trace::forecast_step(report, 0);
  REQUIRE(step);
  result::TraceRank rank;
  rank.devices.emplace_back();
  result::TraceStep measured = *step;
  std::erase_if(measured.kinds, [](const result::TraceKind& k) {
    return k.kind == "all_gather" || k.kind == "reduce_scatter" || k.kind == "all_reduce";
  });
  for (result::TraceKind& k : measured.kinds) {
    k.kind = k.kind == "memory_bound" ? "elementwise" : k.kind;
  }
  rank.devices[0].steps = {measured, measured, measured};
  const auto compared = trace::compare(rank, report, 0);
  REQUIRE(compared);
  CHECK(compared->steps == 2);
  for (const result::TraceComparison& row : compared->step) {
    INFO(row.what);
    CHECK(std::abs((row.forecast - row.measured).count()) <= 1);
  }
  for (const result::TraceComparison& row : compared->kinds) {
    INFO(row.what);
    if (row.measured > Time(0)) {
      CHECK(std::abs((row.forecast - row.measured).count()) <= 1);
    }
  }
}
