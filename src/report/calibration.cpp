// Logs, verdicts and curves of a calibration, for a terminal and as JSON.
#include <fmt/format.h>

#include <filesystem>

#include "format.h"
#include "json_writer.h"
#include "stepcast/report/report.h"
#include "text_table.h"

namespace stepcast::report {
namespace {

using result::CalibrationCurve;
using result::CalibrationSeries;
using result::Health;
using Align = TextTable::Align;

constexpr int kWidth = 120;

std::string painted(const Paint& paint, Health health) {
  constexpr const char* kColours[] = {"32", "33", "31"};
  return paint(kColours[static_cast<int>(health)], to_string(health));
}

std::string log_of(const CalibrationSeries& s) {
  return std::filesystem::path(s.file).filename().string();
}

std::string placement(const CalibrationSeries& s) {
  return fmt::format("{} x {}", s.nodes, s.gpus_per_node);
}

std::string logs(const result::Calibration& c, const Paint& paint) {
  TextTable table({{"health", Align::left},
                   {"collective", Align::left},
                   {"nodes x GPUs"},
                   {"points"},
                   {"sizes"},
                   {"of model"},
                   {"fit error"},
                   {"log", Align::left}});
  for (const CalibrationSeries& s : c.series) {
    const bool some = !s.points.empty();
    table.row({to_string(s.health), s.op, placement(s),
               thousands(static_cast<std::int64_t>(s.points.size())),
               some ? data_size(static_cast<double>(s.points.front().bytes)) + " to " +
                          data_size(static_cast<double>(s.points.back().bytes))
                    : "-",
               s.ratio > 0 ? fmt::format("{:.2f}", s.ratio) : "-",
               s.fitted ? percent(s.error) : "-", log_of(s)});
  }
  return paint("1", "Logs") + "  " +
         paint("2", "of model: time at large sizes over what was expected; fit error: median") +
         "\n" + table.text(paint, kWidth);
}

std::string remarks(const result::Calibration& c, const Paint& paint) {
  std::string out;
  for (const CalibrationSeries& s : c.series) {
    if (s.reasons.empty() && s.left_out.empty()) {
      continue;
    }
    std::string why;
    for (const std::string& reason : s.reasons) {
      why += (why.empty() ? "" : "; ") + reason;
    }
    if (!s.left_out.empty() && s.left_out != "degraded") {
      why += (why.empty() ? "" : "; ") + ("not fitted: " + s.left_out);
    }
    out += "  " + painted(paint, s.health) + " " +
           wrap(fmt::format("{} {} {}: {}", log_of(s), s.op, placement(s), why), kWidth - 12, 4) +
           "\n";
  }
  return out.empty() ? "" : "\n" + paint("1", "Remarks") + "\n" + out;
}

std::string curves(const result::Calibration& c, const Paint& paint) {
  if (c.curves.empty()) {
    return "";
  }
  TextTable table({{"collective", Align::left},
                   {"among", Align::left},
                   {"points"},
                   {"latency"},
                   {"bus bandwidth"},
                   {"error <1 MiB"},
                   {"left out"},
                   {"error >=1 MiB"},
                   {"left out"}});
  for (const CalibrationCurve& k : c.curves) {
    const auto error = [](const result::CalibrationResidual& r, double value) {
      return r.points > 0 ? percent(value) : std::string("-");
    };
    table.row({k.op, fmt::format("{} {}", k.size, k.scope == "network" ? "domains" : "ranks"),
               thousands(k.points), duration(k.latency), rate(k.bus_bandwidth),
               error(k.small, k.small.median), error(k.small, k.small.left_out),
               error(k.large, k.large.median), error(k.large, k.large.left_out)});
  }
  return "\n" + paint("1", "Curves") + "  " +
         paint("2", "median error; left out: of a curve that did not see the log") + "\n" +
         table.text(paint, kWidth);
}

void residual(JsonWriter& out, const char* key, const result::CalibrationResidual& r) {
  out.key(key).object(true);
  out.key("points").integer(r.points);
  out.key("median").number(r.median);
  out.key("left_out").number(r.left_out);
  out.close();
}

}  // namespace

std::string terminal(const result::Calibration& calibration, bool colour) {
  const Paint paint{colour};
  return logs(calibration, paint) + remarks(calibration, paint) + curves(calibration, paint);
}

std::string json(const result::Calibration& calibration) {
  JsonWriter out;
  out.object();
  out.key("schema").integer(1);
  out.key("system").text(calibration.system);
  out.key("cluster").text(calibration.cluster);
  out.key("logs").array();
  for (const CalibrationSeries& s : calibration.series) {
    out.object();
    out.key("log").text(log_of(s));
    out.key("line").integer(s.line);
    out.key("collective").text(s.op);
    out.key("nodes").integer(s.nodes);
    out.key("gpus_per_node").integer(s.gpus_per_node);
    out.key("nccl");
    s.nccl.empty() ? out.null() : out.text(s.nccl);
    out.key("health").text(to_string(s.health));
    out.key("reasons").array(true);
    for (const std::string& reason : s.reasons) {
      out.text(reason);
    }
    out.close();
    out.key("fitted").boolean(s.fitted);
    out.key("left_out");
    s.left_out.empty() ? out.null() : out.text(s.left_out);
    out.key("of_model").number(s.ratio);
    out.key("model").text(s.expected_from);
    out.key("error").number(s.error);
    out.key("points").array();
    for (const auto& p : s.points) {
      out.object(true);
      out.key("bytes").integer(p.bytes);
      out.key("measured").number(p.measured);
      out.key("expected").number(p.expected);
      out.key("fitted");
      p.fitted > 0 ? out.number(p.fitted) : out.null();
      out.close();
    }
    out.close();
    out.close();
  }
  out.close();
  out.key("curves").array();
  for (const CalibrationCurve& k : calibration.curves) {
    out.object();
    out.key("collective").text(k.op);
    out.key("scope").text(k.scope);
    out.key("size").integer(k.size);
    out.key("points").integer(k.points);
    out.key("latency").number(k.latency);
    out.key("busbw").number(k.bus_bandwidth);
    residual(out, "below_1MiB", k.small);
    residual(out, "from_1MiB", k.large);
    out.close();
  }
  out.close();
  out.close();
  return std::move(out).finish();
}

}  // namespace stepcast::report
