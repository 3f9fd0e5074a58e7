// Logs, verdicts and curves of a calibration, for a terminal and as JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "../record/tables.h"
#include "stepcast/report/report.h"

namespace stepcast::report {
namespace {

using result::CalibrationCurve;
using result::CalibrationSeries;
using result::Health;

std::string painted(const Paint& paint, Health health) {
  constexpr const char* kColours[] = {"32", "33", "31"};
  return paint(kColours[static_cast<int>(health)], to_string(health));
}

std::string placement(const CalibrationSeries& s) {
  return fmt::format("{} x {}", s.nodes, s.gpus_per_node);
}

std::string sizes(const CalibrationSeries& s) {
  return s.points.empty() ? "-"
                          : data_size(static_cast<double>(s.points.front().bytes)) + " to " +
                                data_size(static_cast<double>(s.points.back().bytes));
}

Record log_point_fields(const result::CalibrationPoint& p) {
  return {{"bytes", p.bytes},
          {"measured", p.measured},
          {"expected", p.expected},
          {"fitted", if_known(p.fitted > 0, p.fitted)}};
}

Record log_fields(const CalibrationSeries& s) {
  return {
      {"log", file_name(s.file), "log"},
      {"line", s.line},
      {"collective", s.op, "collective"},
      {"nodes", s.nodes},
      {"gpus_per_node", s.gpus_per_node},
      {"", placement(s), "nodes x GPUs", Show::number},
      {"nccl", text_or_null(s.nccl)},
      {"health", to_string(s.health), "health"},
      {"reasons", s.reasons},
      {"fitted", s.fitted},
      {"left_out", text_or_null(s.left_out)},
      {"", sizes(s), "sizes", Show::number},
      {"of_model", s.ratio},
      {"", or_dash(s.ratio > 0, fmt::format("{:.2f}", s.ratio)), "of model", Show::number},
      {"model", s.expected_from},
      {"error", s.error},
      {"", or_dash(s.fitted, s.error), "fit error", Show::percent},
      {"points", rows(s.points, log_point_fields)},
      {"", s.points.size(), "points", Show::count},
  };
}

Record curve_fields(const CalibrationCurve& k) {
  const auto residual = [](const result::CalibrationResidual& r) {
    return object({{"points", r.points}, {"median", r.median}, {"left_out", r.left_out}});
  };
  const auto error = [](const result::CalibrationResidual& r, double value) {
    return or_dash(r.points > 0, value);
  };
  const char* among = k.scope == "network" ? "domains" : "ranks";
  return {
      {"collective", k.op, "collective"},
      {"", fmt::format("{} {}", k.size, among), "among"},
      {"scope", k.scope},
      {"size", k.size},
      {"points", k.points, "points", Show::count},
      {"latency", k.latency, "latency", Show::duration},
      {"busbw", k.bus_bandwidth, "bus bandwidth", Show::rate},
      {"below_1MiB", residual(k.small)},
      {"from_1MiB", residual(k.large)},
      {"", error(k.small, k.small.median), "error <1 MiB", Show::percent},
      {"", error(k.small, k.small.left_out), "left out", Show::percent},
      {"", error(k.large, k.large.median), "error >=1 MiB", Show::percent},
      {"", error(k.large, k.large.left_out), "left out", Show::percent},
  };
}

std::string log_remarks(const result::Calibration& c, const Paint& paint) {
  std::string out;
  for (const CalibrationSeries& s : c.series) {
    if (s.reasons.empty() && s.left_out.empty()) {
      continue;
    }
    std::vector<std::string> why = s.reasons;
    if (!s.left_out.empty() && s.left_out != "degraded") {
      why.push_back("not fitted: " + s.left_out);
    }
    const std::string text =
        fmt::format("{} {} {}: {}", file_name(s.file), s.op, placement(s), fmt::join(why, "; "));
    out += "  " + painted(paint, s.health) + " " + wrap(text, kUsualWidth - 12, 4) + "\n";
  }
  return out.empty() ? "" : "\n" + paint("1", "Remarks") + "\n" + out;
}

}  // namespace

std::string terminal(const result::Calibration& calibration, bool colour) {
  const Paint paint{colour};
  const Captions columns = {"health", "collective", "nodes x GPUs", "points",
                            "sizes",  "of model",   "fit error",    "log"};
  std::string out =
      heading(paint, "Logs",
              "of model: time at large sizes over the expected time; fit error: median") +
      text_table(calibration.series, log_fields, columns).text(paint, kUsualWidth) +
      log_remarks(calibration, paint);
  if (!calibration.curves.empty()) {
    out += "\n" +
           heading(paint, "Curves", "median error; left out: of a curve fitted without the log") +
           text_table(calibration.curves, curve_fields).text(paint, kUsualWidth);
  }
  return out;
}

std::string json(const result::Calibration& calibration) {
  return json_of({{"schema", 1},
                  {"system", calibration.system},
                  {"cluster", calibration.cluster},
                  {"logs", blocks(calibration.series, log_fields)},
                  {"curves", blocks(calibration.curves, curve_fields)}});
}

}  // namespace stepcast::report
