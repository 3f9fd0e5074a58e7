// A site's parameters fitted to measured steps, for a terminal and as JSON.
#include <fmt/format.h>

#include <algorithm>

#include "../record/tables.h"
#include "stepcast/report/report.h"

namespace stepcast::report {
namespace {

using result::SiteCalibration;
using result::SiteCheck;
using result::SiteError;
using result::SiteFitted;
using result::SiteRow;

// Rows with a smaller Huber's weight (2.7 deviations off) are outliers.
constexpr double kOutlier = 0.75;

std::string value_of(const SiteFitted& p, double v) {
  return p.seconds ? duration(v) : fmt::format("{:.3f}", v);
}

// Deviations are relative; that of `layer`, whose value may be 0, is in seconds.
std::string deviation_of(const SiteFitted& p, double d) {
  return d <= 0 ? "-" : p.name == "layer" ? "+-" + duration(d) : "+-" + percent(d);
}

std::string change_of(const SiteFitted& p) {
  return !p.determined ? "unchanged"
         : p.prior > 0 ? signed_percent(p.value / p.prior - 1)
                       : "+" + duration(p.value - p.prior);
}

std::string site_line(const std::string& text) { return item(text, kUsualWidth - 2, 4); }

Record parameter_fields(const SiteFitted& p) {
  return {{"name", p.name},
          {"unit", p.seconds ? "s" : "1"},
          {"prior", p.prior},
          {"value", p.value},
          {"prior_deviation", p.prior_deviation},
          {"deviation", p.deviation},
          {"determined", p.determined},
          {"reason", text_or_null(p.reason)},
          {"", p.words, "parameter"},
          {"", value_of(p, p.prior), "before", Show::number},
          {"", value_of(p, p.value), "now", Show::number},
          {"", change_of(p), "change", Show::number},
          {"", or_dash(p.determined, deviation_of(p, p.deviation)), "deviation", Show::number},
          {"", deviation_of(p, p.prior_deviation), "prior deviation", Show::number}};
}

// The columns that rows of the fit and rows held out of it have in common.
Record step_columns(int gpus, double measured, double before, double after) {
  return {
      {"", gpus, "GPUs", Show::count},        {"", measured, "measured", Show::duration},
      {"", before, "before", Show::duration}, {"", before / measured - 1, "error", Show::change},
      {"", after, "after", Show::duration},   {"", after / measured - 1, "error", Show::change}};
}

Record row_fields(const SiteRow& r) {
  Record out = {{"id", r.id},
                {"file", file_name(r.file)},
                {"line", r.line},
                {"gpus", r.gpus},
                {"repeats", r.repeats},
                {"measured", r.measured},
                {"before", r.before},
                {"after", r.after},
                {"left_out", if_known(r.left_out > 0, r.left_out)},
                {"weight", r.weight}};
  append(out, step_columns(r.gpus, r.measured, r.before, r.after));
  append(out, {{"", or_dash(r.left_out > 0, r.left_out / r.measured - 1), "left out", Show::change},
               {"", r.repeats > 1 ? fmt::format("{} ({} runs)", r.id, r.repeats) : r.id, "row"}});
  return out;
}

Record check_fields(const SiteCheck& r) {
  Record out = {{"id", r.id},
                {"file", file_name(r.file)},
                {"line", r.line},
                {"gpus", r.gpus},
                {"measured", r.measured},
                {"before", result::Estimate{r.before, r.before_low, r.before_high}},
                {"after", result::Estimate{r.after, r.after_low, r.after_high}}};
  append(out, step_columns(r.gpus, r.measured, r.before, r.after));
  append(out, {{"", duration(r.after_low) + " to " + duration(r.after_high), "90 % interval",
                Show::number},
               {"", r.id, "row"}});
  return out;
}

Record skipped_fields(const result::SiteSkipped& s) {
  return {{"id", s.id}, {"file", file_name(s.file)}, {"line", s.line}, {"reason", s.reason}};
}

Record error_fields(const char* name, const SiteError& e) {
  return {{"", name, "of all rows"},
          {"median", e.median, "median error", Show::percent},
          {"worst", e.worst, "worst", Show::percent},
          {"bias", e.bias, "bias", Show::change}};
}
Record check_error_fields(const char* name, const SiteError& e, double covered) {
  Record out = error_fields(name, e);
  out.push_back({"", covered, "inside the interval", Show::percent});
  return out;
}
Value site_error(const SiteError& e) { return object(error_fields("", e)); }

std::string parameters(const SiteCalibration& c, const Paint& paint) {
  std::string out = heading(paint, "Parameters", "deviations are standard deviations") +
                    text_table(c.parameters, parameter_fields).text(paint, kUsualWidth);
  for (const SiteFitted& p : c.parameters) {
    out +=
        p.determined ? "" : site_line(fmt::format("{} is not determined: {}", p.words, p.reason));
  }
  return out;
}

std::string fitted_rows(const SiteCalibration& c, const Paint& paint) {
  std::string out = "\n" + heading(paint, "Rows", "left out: by a fit without the row") +
                    text_table(c.rows, row_fields).text(paint, kUsualWidth);
  for (const SiteRow& r : c.rows) {
    out += r.weight < kOutlier
               ? site_line(
                     fmt::format("{} is an outlier: it counts for {:.2f} of a row", r.id, r.weight))
               : "";
  }
  std::vector<Record> errors = {error_fields("before", c.before), error_fields("after", c.after)};
  if (std::any_of(c.rows.begin(), c.rows.end(), [](const SiteRow& r) { return r.left_out > 0; })) {
    errors.push_back(error_fields("left out", c.left_out));
  }
  return out + "\n" + text_table(errors.front(), errors).text(paint, kUsualWidth) +
         fmt::format("  standard deviation of one run: {} ({}); rows scatter by {} about the fit\n",
                     percent(c.noise),
                     c.noise_measured ? "from repeats" : "assumed: no row is repeated",
                     percent(c.discrepancy));
}

std::string checked_rows(const SiteCalibration& c, const Paint& paint) {
  if (c.checks.empty()) {
    return "";
  }
  const std::vector<Record> errors = {
      check_error_fields("before", c.check_before, c.covered_before),
      check_error_fields("after", c.check_after, c.covered_after)};
  return "\n" + heading(paint, "Rows held out of the fit") +
         text_table(c.checks, check_fields).text(paint, kUsualWidth) + "\n" +
         text_table(errors.front(), errors).text(paint, kUsualWidth);
}

}  // namespace

std::string terminal(const SiteCalibration& c, bool colour) {
  const Paint paint{colour};
  std::string out =
      paint("1", c.name) + fmt::format(": {}, {}{}\n\n", c.device.empty() ? "no device" : c.device,
                                       c.system.empty() ? "no system" : c.system,
                                       c.fabric.empty() ? "" : ", " + c.fabric);
  if (!c.rows.empty()) {
    out += parameters(c, paint) + fitted_rows(c, paint) + checked_rows(c, paint);
  }
  if (!c.skipped.empty()) {
    out += "\n" + heading(paint, "Rows left out");
  }
  for (const auto& s : c.skipped) {
    out += site_line(s.line > 0 ? fmt::format("{} (line {}): {}", s.id, s.line, s.reason)
                                : fmt::format("{}: {}", s.id, s.reason));
  }
  return c.refused.empty() ? out : out + "\n" + paint("1", "Refused") + ": " + c.refused + "\n";
}

std::string json(const SiteCalibration& c) {
  return json_of({
      {"schema", 1},
      {"name", c.name},
      {"device", c.device},
      {"system", c.system},
      {"fabric", c.fabric},
      {"refused", text_or_null(c.refused)},
      {"parameters", rows(c.parameters, parameter_fields)},
      {"rows", rows(c.rows, row_fields)},
      {"skipped", rows(c.skipped, skipped_fields)},
      {"before", site_error(c.before)},
      {"after", site_error(c.after)},
      {"left_out", site_error(c.left_out)},
      {"checks", rows(c.checks, check_fields)},
      {"checks_before", site_error(c.check_before)},
      {"checks_after", site_error(c.check_after)},
      {"covered_before", c.covered_before},
      {"covered_after", c.covered_after},
      {"noise", c.noise},
      {"noise_measured", c.noise_measured},
      {"discrepancy", c.discrepancy},
  });
}

}  // namespace stepcast::report
