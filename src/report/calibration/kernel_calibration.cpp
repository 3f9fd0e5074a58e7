// The result of a calibration of kernels, for a terminal and as JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "../record/tables.h"
#include "stepcast/report/report.h"

namespace stepcast::report {
namespace {

using result::KernelCalibration;
using result::KernelFigure;

constexpr std::size_t kMaxWarnings = 12;

Record input_fields(const result::KernelInput& input) {
  return {{"file", file_name(input.file)},
          {"gpu", text_or_null(input.gpu)},
          {"source", input.source},
          {"measurements", input.measurements}};
}

Record fit_fields(const result::KernelFitRow& r) {
  return {{"curve", r.curve, "curve"},
          {"sizes", r.size, "sizes"},
          {"points", r.points, "points", Show::count},
          {"held_out", r.held_out, "held out", Show::count},
          {"median", r.median, "median", Show::percent},
          {"p95", r.p95, "95 %", Show::percent},
          {"outliers", r.outliers},
          {"", or_dash(r.outliers > 0, r.outliers), "outliers", Show::count}};
}

Record comparison_fields(const result::KernelComparison& r) {
  const auto errors = [](double median, double p95, const std::string& by) {
    return object({{"median", median}, {"p95", p95}, {"by", by}});
  };
  return {{"kernel", r.kernel, "kernels"},
          {"points", r.points, "points", Show::count},
          {"before", errors(r.before_median, r.before_p95, r.before_from)},
          {"after", errors(r.after_median, r.after_p95, r.after_from)},
          {"", r.before_median, "before", Show::percent},
          {"", r.before_p95, "95 %", Show::percent},
          {"", r.after_median, "after", Show::percent},
          {"", r.after_p95, "95 %", Show::percent},
          {"", r.before_from, "before by"}};
}

Record layer_fields(const result::KernelLayer& l) {
  const bool known = l.why.empty();
  const double error = l.predicted / l.measured - 1, before = l.before / l.measured - 1;
  return {{"layer", l.name, "layer"},
          {"measured", l.measured, "measured", Show::duration},
          {"predicted", if_known(known, l.predicted)},
          {"error", if_known(known, error)},
          {"before", if_known(known, l.before)},
          {"", or_dash(known, l.predicted), "predicted", Show::duration},
          {"", or_dash(known, error), "error", Show::percent},
          {"", or_dash(known, before), "before", Show::percent},
          {"why", text_or_null(l.why), kNoHeading}};
}

Record figure_fields(const KernelFigure& f) {
  constexpr const char* kUnits[] = {"s", "B/s", "1"};
  constexpr Show kShows[] = {Show::duration, Show::rate, Show::number};
  const auto unit = static_cast<std::size_t>(f.unit);
  const bool factor = f.unit == KernelFigure::Unit::factor;
  return {
      {"name", f.name, "measured"},
      {"value", f.value},
      {"", factor ? Value(fmt::format("{:.3f}", f.value)) : Value(f.value), "value", kShows[unit]},
      {"unit", kUnits[unit]},
      {"points", f.points, "points", Show::count}};
}

Record refused_fields(const result::KernelRefused& r) {
  return {{"library", text_or_null(r.library)}, {"why", r.why}};
}

Record left_out_fields(const result::KernelLeftOut& l) {
  return {{"file", file_name(l.file)}, {"line", l.line}, {"count", l.count}, {"why", l.why}};
}

template <class T>
std::string section(const Paint& paint, const char* title, const char* remark,
                    const std::vector<T>& all, Record (*fields)(const T&)) {
  return all.empty() ? ""
                     : "\n" + heading(paint, title, remark) +
                           text_table(all, fields).text(paint, kUsualWidth);
}

std::string kernel_line(const std::string& text) { return item(text, kUsualWidth - 2, 4); }

std::string inputs(const KernelCalibration& c, const Paint& paint) {
  std::string out = heading(paint, "Kernels of " + c.device,
                            fmt::format("library {}", fmt::join(c.libraries, ", ")));
  for (const auto& input : c.inputs) {
    out += kernel_line(fmt::format("{}: {} measurements{}, {}", file_name(input.file),
                                   thousands(input.measurements),
                                   input.gpu.empty() ? "" : " of " + input.gpu, input.source));
  }
  return out;
}

std::string remarks(const KernelCalibration& c, const Paint& paint) {
  std::string out;
  if (!c.refused.empty()) {
    out += "\n" + heading(paint, "Refused", "no curve could be fitted for these");
    for (const auto& r : c.refused) {
      out += kernel_line((r.library.empty() ? "" : "library " + r.library + ", ") + r.why);
    }
  }
  if (!c.left_out.empty()) {
    out += "\n" + heading(paint, "Left out", "measurements that no fit uses");
    for (const auto& l : c.left_out) {
      const std::string at = l.line > 0 ? fmt::format(":{}", l.line) : "";
      out += kernel_line(
          fmt::format("{} from {}{}: {}", thousands(l.count), file_name(l.file), at, l.why));
    }
  }
  if (!c.warnings.empty()) {
    out += "\n" + heading(paint, "Warnings");
    const std::size_t shown = std::min(c.warnings.size(), kMaxWarnings);
    for (std::size_t i = 0; i < shown; ++i) {
      out += kernel_line(c.warnings[i]);
    }
    if (shown < c.warnings.size()) {
      out += fmt::format("  and {} more (--json lists all)\n", c.warnings.size() - shown);
    }
  }
  if (!c.collectives.empty()) {
    out += "\n" + heading(paint, "Collectives", "fitted by another command, not here");
    for (const std::string& file : c.collectives) {
      out += fmt::format("  simulate calibrate nccl {} --cluster NAME\n", file);
    }
  }
  return out;
}

}  // namespace

std::string terminal(const KernelCalibration& c, bool colour) {
  const Paint paint{colour};
  return inputs(c, paint) +
         section(paint, "Fits", "errors on points held out of the fit", c.rows, fit_fields) +
         section(paint, "Before and after",
                 "median error and 95th percentile on these points, installed and new curves",
                 c.comparisons, comparison_fields) +
         section(paint, "Layers", "predicted by the new curves, not fitted", c.layers,
                 layer_fields) +
         section(paint, "Figures",
                 "medians; A beside B: time of A while B runs over time of A alone", c.figures,
                 figure_fields) +
         remarks(c, paint);
}

std::string json(const KernelCalibration& c) {
  return json_of({
      {"schema", 1},
      {"device", c.device},
      {"libraries", c.libraries},
      {"inputs", blocks(c.inputs, input_fields)},
      {"files", list(c.files, [](const result::KernelFile& f) { return f.name; })},
      {"fits", rows(c.rows, fit_fields)},
      {"comparisons", blocks(c.comparisons, comparison_fields)},
      {"layers", blocks(c.layers, layer_fields)},
      {"figures", rows(c.figures, figure_fields)},
      {"refused", blocks(c.refused, refused_fields)},
      {"left_out", blocks(c.left_out, left_out_fields)},
      {"warnings", lines(c.warnings)},
      {"collectives", list(c.collectives, file_name, false)},
  });
}

}  // namespace stepcast::report
