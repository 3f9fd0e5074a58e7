#include "stepcast/forecast/explain.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace stepcast::forecast {
namespace {

// What to measure against a doubt, by its kind.
struct Remedy {
  result::DoubtKind kind;
  std::string_view how;
};
constexpr Remedy kRemedies[] = {
    {result::DoubtKind::curve, "calibrate-gpu on this device, then simulate calibrate gpu"},
    {result::DoubtKind::overlap, "calibrate-gpu on this device, then simulate calibrate gpu"},
    {result::DoubtKind::network, "nccl-tests on this fabric, then simulate calibrate nccl"},
    {result::DoubtKind::site, "more steps of other sizes, then simulate calibrate runs"},
    {result::DoubtKind::run, "several runs of this job; the scatter between runs remains"},
    {result::DoubtKind::open, "nothing: state the key in the job, where its value is known"},
    {result::DoubtKind::model, "a few steps of this training system, then simulate calibrate runs"},
};

std::string how_to_measure(result::DoubtKind kind) {
  for (const Remedy& remedy : kRemedies) {
    if (remedy.kind == kind) {
      return std::string(remedy.how);
    }
  }
  return "";
}

}  // namespace

result::Explanation explain(const result::Report& report, std::optional<double> measured) {
  result::Explanation out;
  out.title = report.title;
  out.job_json = report.job_json;
  out.step_time = report.step_time;
  out.critical_path = report.critical_path;
  out.curves = report.curves;
  out.notes = report.notes;
  double variance = 0;
  for (const result::Doubt& d : report.doubts) {
    variance += d.added() * d.added();
  }
  const double deviation = std::sqrt(variance);
  const double gap = measured ? *measured - report.step_time.value : 0;
  for (const result::Doubt& d : report.doubts) {
    const double added = d.added();
    out.doubts.push_back({d, variance > 0 ? added * added / variance : 0,
                          added != 0 ? gap / added : 0, variance > 0 ? gap * added / variance : 0});
  }
  double left = variance;
  for (const result::DoubtShare& share : out.doubts) {
    if (left <= variance / 4) {
      break;
    }
    left = std::max(0.0, left - share.doubt.added() * share.doubt.added());
    out.halve.push_back({share.doubt.name, how_to_measure(share.doubt.kind),
                         variance > 0 ? std::sqrt(left / variance) : 0});
  }
  if (measured) {
    out.measured = result::MeasuredGap{
        *measured, deviation > 0 ? gap / deviation : 0,
        report.step_time.low <= *measured && *measured <= report.step_time.high};
  }
  return out;
}

}  // namespace stepcast::forecast
