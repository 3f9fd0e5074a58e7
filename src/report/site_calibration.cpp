// What measured steps tell of a site, for a terminal and as JSON.
#include <fmt/format.h>

#include <filesystem>
#include <tuple>

#include "format.h"
#include "json_writer.h"
#include "stepcast/report/report.h"
#include "text_table.h"

namespace stepcast::report {
namespace {

using result::SiteCalibration;
using result::SiteError;
using result::SiteFitted;
using result::SiteRow;
using Align = TextTable::Align;

constexpr int kWidth = 120;
constexpr double kOutlier = 0.75;  // Huber's weight: 2.7 deviations off

std::string value_of(const SiteFitted& p, double v) {
  return p.seconds ? duration(v) : fmt::format("{:.3f}", v);
}

// Deviations are relative; of layer, whose value may be 0, seconds.
std::string deviation_of(const SiteFitted& p, double d) {
  return d <= 0 ? "-" : p.name == "layer" ? "+-" + duration(d) : "+-" + percent(d);
}

std::string signed_percent(double x) { return fmt::format("{:+.1f} %", 100 * x); }

std::string change_of(const SiteFitted& p) {
  return !p.determined ? "unchanged"
         : p.prior > 0 ? signed_percent(p.value / p.prior - 1)
                       : "+" + duration(p.value - p.prior);
}

std::string parameters(const SiteCalibration& c, const Paint& paint) {
  TextTable table({{"parameter", Align::left},
                   {"before"},
                   {"now"},
                   {"change"},
                   {"sure to"},
                   {"known before to"}});
  std::string reasons;
  for (const SiteFitted& p : c.parameters) {
    table.row({p.words, value_of(p, p.prior), value_of(p, p.value), change_of(p),
               p.determined ? deviation_of(p, p.deviation) : "-",
               deviation_of(p, p.prior_deviation)});
    if (!p.determined) {
      reasons += "  " +
                 wrap(fmt::format("{} is not determined: {}", p.words, p.reason), kWidth - 2, 4) +
                 "\n";
    }
  }
  return paint("1", "Parameters") + "  " + paint("2", "deviations are standard deviations") + "\n" +
         table.text(paint, kWidth) + reasons;
}

std::string rows(const SiteCalibration& c, const Paint& paint) {
  TextTable table({{"GPUs"},
                   {"measured"},
                   {"before"},
                   {"error"},
                   {"after"},
                   {"error"},
                   {"left out"},
                   {"row", Align::left}});
  std::string outliers;
  for (const SiteRow& r : c.rows) {
    table.row({thousands(r.gpus), duration(r.measured), duration(r.before),
               signed_percent(r.before / r.measured - 1), duration(r.after),
               signed_percent(r.after / r.measured - 1),
               r.left_out > 0 ? signed_percent(r.left_out / r.measured - 1) : "-",
               r.repeats > 1 ? fmt::format("{} ({} runs)", r.id, r.repeats) : r.id});
    if (r.weight < kOutlier) {
      outliers +=
          "  " +
          wrap(fmt::format("{} is an outlier: it counts for {:.2f} of a row", r.id, r.weight),
               kWidth - 2, 4) +
          "\n";
    }
  }
  return "\n" + paint("1", "Rows") + "  " +
         paint("2", "left out: of a fit that did not see the row") + "\n" +
         table.text(paint, kWidth) + outliers;
}

std::string errors(const SiteCalibration& c, const Paint& paint) {
  TextTable table({{"of all rows", Align::left}, {"median error"}, {"worst"}, {"bias"}});
  const auto add = [&](const char* name, const SiteError& e) {
    table.row({name, percent(e.median), percent(e.worst), signed_percent(e.bias)});
  };
  add("before", c.before);
  add("after", c.after);
  if (c.rows.size() >= 3) {
    add("left out", c.left_out);
  }
  return "\n" + table.text(paint, kWidth) +
         fmt::format("  one run repeats within {} ({}); rows scatter by {} about the fit\n",
                     percent(c.noise),
                     c.noise_measured ? "from repeats" : "assumed: no row is repeated",
                     percent(c.discrepancy));
}

std::string checks(const SiteCalibration& c, const Paint& paint) {
  if (c.checks.empty()) {
    return "";
  }
  TextTable table({{"GPUs"},
                   {"measured"},
                   {"before"},
                   {"error"},
                   {"after"},
                   {"error"},
                   {"90 % interval"},
                   {"row", Align::left}});
  for (const auto& r : c.checks) {
    table.row({thousands(r.gpus), duration(r.measured), duration(r.before),
               signed_percent(r.before / r.measured - 1), duration(r.after),
               signed_percent(r.after / r.measured - 1),
               duration(r.after_low) + " to " + duration(r.after_high), r.id});
  }
  TextTable all({{"of all rows", Align::left},
                 {"median error"},
                 {"worst"},
                 {"bias"},
                 {"inside the interval"}});
  const auto add = [&](const char* name, const SiteError& e, double covered) {
    all.row({name, percent(e.median), percent(e.worst), signed_percent(e.bias), percent(covered)});
  };
  add("before", c.check_before, c.covered_before);
  add("after", c.check_after, c.covered_after);
  return "\n" + paint("1", "Rows that the fit did not see") + "\n" + table.text(paint, kWidth) +
         "\n" + all.text(paint, kWidth);
}

std::string skipped(const SiteCalibration& c, const Paint& paint) {
  if (c.skipped.empty()) {
    return "";
  }
  std::string out = "\n" + paint("1", "Rows left out") + "\n";
  for (const auto& s : c.skipped) {
    out +=
        "  " + wrap(fmt::format("{} (line {}): {}", s.id, s.line, s.reason), kWidth - 2, 4) + "\n";
  }
  return out;
}

void error(JsonWriter& out, const char* key, const SiteError& e) {
  out.key(key).object(true);
  out.key("median").number(e.median);
  out.key("worst").number(e.worst);
  out.key("bias").number(e.bias);
  out.close();
}

std::string file_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

}  // namespace

std::string terminal(const SiteCalibration& c, bool colour) {
  const Paint paint{colour};
  std::string out =
      paint("1", c.name) + fmt::format(": {}, {}{}\n\n", c.device.empty() ? "no device" : c.device,
                                       c.system.empty() ? "no system" : c.system,
                                       c.fabric.empty() ? "" : ", " + c.fabric);
  if (!c.rows.empty()) {
    out += parameters(c, paint) + rows(c, paint) + errors(c, paint) + checks(c, paint);
  }
  out += skipped(c, paint);
  if (!c.refused.empty()) {
    out += "\n" + paint("1", "Refused") + ": " + c.refused + "\n";
  }
  return out;
}

std::string json(const SiteCalibration& c) {
  JsonWriter out;
  out.object();
  out.key("schema").integer(1);
  out.key("name").text(c.name);
  out.key("device").text(c.device);
  out.key("system").text(c.system);
  out.key("fabric").text(c.fabric);
  out.key("refused");
  c.refused.empty() ? out.null() : out.text(c.refused);
  out.key("parameters").array();
  for (const SiteFitted& p : c.parameters) {
    out.object(true);
    out.key("name").text(p.name);
    out.key("unit").text(p.seconds ? "s" : "1");
    out.key("prior").number(p.prior);
    out.key("value").number(p.value);
    out.key("prior_deviation").number(p.prior_deviation);
    out.key("deviation").number(p.deviation);
    out.key("determined").boolean(p.determined);
    out.key("reason");
    p.reason.empty() ? out.null() : out.text(p.reason);
    out.close();
  }
  out.close();
  out.key("rows").array();
  for (const SiteRow& r : c.rows) {
    out.object(true);
    out.key("id").text(r.id);
    out.key("file").text(file_name(r.file));
    out.key("line").integer(r.line);
    out.key("gpus").integer(r.gpus);
    out.key("repeats").integer(r.repeats);
    out.key("measured").number(r.measured);
    out.key("before").number(r.before);
    out.key("after").number(r.after);
    out.key("left_out");
    r.left_out > 0 ? out.number(r.left_out) : out.null();
    out.key("weight").number(r.weight);
    out.close();
  }
  out.close();
  out.key("skipped").array();
  for (const auto& s : c.skipped) {
    out.object(true);
    out.key("id").text(s.id);
    out.key("file").text(file_name(s.file));
    out.key("line").integer(s.line);
    out.key("reason").text(s.reason);
    out.close();
  }
  out.close();
  error(out, "before", c.before);
  error(out, "after", c.after);
  error(out, "left_out", c.left_out);
  out.key("checks").array();
  for (const auto& r : c.checks) {
    out.object(true);
    out.key("id").text(r.id);
    out.key("file").text(file_name(r.file));
    out.key("line").integer(r.line);
    out.key("gpus").integer(r.gpus);
    out.key("measured").number(r.measured);
    for (const auto& [name, value, low, high] :
         {std::tuple("before", r.before, r.before_low, r.before_high),
          std::tuple("after", r.after, r.after_low, r.after_high)}) {
      out.key(name).object(true);
      out.key("value").number(value);
      out.key("low").number(low);
      out.key("high").number(high);
      out.close();
    }
    out.close();
  }
  out.close();
  error(out, "checks_before", c.check_before);
  error(out, "checks_after", c.check_after);
  out.key("covered_before").number(c.covered_before);
  out.key("covered_after").number(c.covered_after);
  out.key("noise").number(c.noise);
  out.key("noise_measured").boolean(c.noise_measured);
  out.key("discrepancy").number(c.discrepancy);
  out.close();
  return std::move(out).finish();
}

}  // namespace stepcast::report
