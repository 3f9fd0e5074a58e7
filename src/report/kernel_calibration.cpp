// What a calibration of kernels found, for a terminal and as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "format.h"
#include "json_writer.h"
#include "stepcast/report/report.h"
#include "text_table.h"

namespace stepcast::report {
namespace {

using result::KernelCalibration;
using result::KernelFigure;
using Align = TextTable::Align;

constexpr int kWidth = 120;
constexpr std::size_t kMostWarnings = 12;

std::string name_of(const std::string& file) {
  return std::filesystem::path(file).filename().string();
}

std::string heading(const Paint& paint, const char* title, const char* note) {
  return "\n" + paint("1", title) + (*note == '\0' ? "" : "  " + paint("2", note)) + "\n";
}

std::string inputs(const KernelCalibration& c, const Paint& paint) {
  std::string out = paint("1", "Kernels of " + c.device) + "  " +
                    paint("2", fmt::format("library {}", fmt::join(c.libraries, ", "))) + "\n";
  for (const auto& input : c.inputs) {
    out += "  " +
           wrap(fmt::format("{}: {} measurements{}, {}", name_of(input.file),
                            thousands(input.measurements),
                            input.gpu.empty() ? "" : " of " + input.gpu, input.source),
                kWidth - 2, 4) +
           "\n";
  }
  return out;
}

std::string fits(const KernelCalibration& c, const Paint& paint) {
  if (c.rows.empty()) {
    return "";
  }
  TextTable table({{"curve", Align::left},
                   {"sizes", Align::left},
                   {"points"},
                   {"held out"},
                   {"median"},
                   {"95 %"},
                   {"outliers"}});
  for (const auto& r : c.rows) {
    table.row({r.curve, r.size, thousands(r.points), thousands(r.held_out), percent(r.median),
               percent(r.p95), r.outliers > 0 ? thousands(r.outliers) : "-"});
  }
  return heading(paint, "Fits", "errors on points that the fit did not see") +
         table.text(paint, kWidth);
}

std::string comparisons(const KernelCalibration& c, const Paint& paint) {
  if (c.comparisons.empty()) {
    return "";
  }
  TextTable table({{"kernels", Align::left},
                   {"points"},
                   {"before"},
                   {"95 %"},
                   {"after"},
                   {"95 %"},
                   {"before by", Align::left}});
  for (const auto& r : c.comparisons) {
    table.row({r.kernel, thousands(r.points), percent(r.before_median), percent(r.before_p95),
               percent(r.after_median), percent(r.after_p95), r.before_from});
  }
  return heading(paint, "Before and after",
                 "median error and 95th percentile on these points, installed and new curves") +
         table.text(paint, kWidth);
}

std::string value_of(const KernelFigure& f) {
  switch (f.unit) {
    case KernelFigure::Unit::seconds:
      return duration(f.value);
    case KernelFigure::Unit::bytes_per_second:
      return rate(f.value);
    case KernelFigure::Unit::factor:
      return fmt::format("{:.3f}", f.value);
  }
  return "";
}

std::string figures(const KernelCalibration& c, const Paint& paint) {
  if (c.figures.empty()) {
    return "";
  }
  TextTable table({{"measured", Align::left}, {"value"}, {"points"}});
  for (const auto& f : c.figures) {
    table.row({f.name, value_of(f), thousands(f.points)});
  }
  return heading(paint, "Figures", "medians; beside: time over time alone") +
         table.text(paint, kWidth);
}

std::string layers(const KernelCalibration& c, const Paint& paint) {
  if (c.layers.empty()) {
    return "";
  }
  TextTable table({{"layer", Align::left},
                   {"measured"},
                   {"predicted"},
                   {"error"},
                   {"before"},
                   {"", Align::left}});
  for (const auto& l : c.layers) {
    if (!l.why.empty()) {
      table.row({l.name, duration(l.measured), "-", "-", "-", l.why});
      continue;
    }
    table.row({l.name, duration(l.measured), duration(l.predicted),
               percent(l.predicted / l.measured - 1), percent(l.before / l.measured - 1), ""});
  }
  return heading(paint, "Layers", "predicted by the new curves, not fitted") +
         table.text(paint, kWidth);
}

std::string remarks(const KernelCalibration& c, const Paint& paint) {
  std::string out;
  if (!c.refused.empty()) {
    out += heading(paint, "Refused", "no curve was written for these");
    for (const auto& r : c.refused) {
      out += "  " +
             wrap((r.library.empty() ? "" : "library " + r.library + ", ") + r.why, kWidth - 2, 4) +
             "\n";
    }
  }
  if (!c.left_out.empty()) {
    out += heading(paint, "Left out", "measurements that no fit uses");
    for (const auto& l : c.left_out) {
      const std::string at = l.line > 0 ? fmt::format(":{}", l.line) : "";
      out += "  " +
             wrap(fmt::format("{} from {}{}: {}", thousands(l.count), name_of(l.file), at, l.why),
                  kWidth - 2, 4) +
             "\n";
    }
  }
  if (!c.warnings.empty()) {
    out += heading(paint, "Warnings", "");
    const std::size_t shown = std::min(c.warnings.size(), kMostWarnings);
    for (std::size_t i = 0; i < shown; ++i) {
      out += "  " + wrap(c.warnings[i], kWidth - 2, 4) + "\n";
    }
    if (shown < c.warnings.size()) {
      out += fmt::format("  and {} more (--json lists all)\n", c.warnings.size() - shown);
    }
  }
  if (!c.collectives.empty()) {
    out += heading(paint, "Collectives", "are not fitted here");
    for (const std::string& file : c.collectives) {
      out += fmt::format("  simulate calibrate nccl {} --cluster NAME\n", file);
    }
  }
  return out;
}

void optional_text(JsonWriter& out, const char* key, const std::string& value) {
  out.key(key);
  value.empty() ? out.null() : out.text(value);
}

const char* unit_of(const KernelFigure& f) {
  constexpr const char* kUnits[] = {"s", "B/s", "1"};
  return kUnits[static_cast<int>(f.unit)];
}

}  // namespace

std::string terminal(const KernelCalibration& c, bool colour) {
  const Paint paint{colour};
  return inputs(c, paint) + fits(c, paint) + comparisons(c, paint) + layers(c, paint) +
         figures(c, paint) + remarks(c, paint);
}

std::string json(const KernelCalibration& c) {
  JsonWriter out;
  out.object();
  out.key("schema").integer(1);
  out.key("device").text(c.device);
  out.key("libraries").array(true);
  for (const auto& library : c.libraries) {
    out.text(library);
  }
  out.close();
  out.key("inputs").array();
  for (const auto& input : c.inputs) {
    out.object();
    out.key("file").text(name_of(input.file));
    optional_text(out, "gpu", input.gpu);
    out.key("source").text(input.source);
    out.key("measurements").integer(input.measurements);
    out.close();
  }
  out.close();
  out.key("files").array(true);
  for (const auto& file : c.files) {
    out.text(file.name);
  }
  out.close();
  out.key("fits").array();
  for (const auto& r : c.rows) {
    out.object(true);
    out.key("curve").text(r.curve);
    out.key("sizes").text(r.size);
    out.key("points").integer(r.points);
    out.key("held_out").integer(r.held_out);
    out.key("median").number(r.median);
    out.key("p95").number(r.p95);
    out.key("outliers").integer(r.outliers);
    out.close();
  }
  out.close();
  out.key("comparisons").array();
  for (const auto& r : c.comparisons) {
    out.object();
    out.key("kernel").text(r.kernel);
    out.key("points").integer(r.points);
    for (const bool after : {false, true}) {
      out.key(after ? "after" : "before").object(true);
      out.key("median").number(after ? r.after_median : r.before_median);
      out.key("p95").number(after ? r.after_p95 : r.before_p95);
      out.key("by").text(after ? r.after_from : r.before_from);
      out.close();
    }
    out.close();
  }
  out.close();
  out.key("layers").array();
  for (const auto& l : c.layers) {
    out.object();
    out.key("layer").text(l.name);
    out.key("measured").number(l.measured);
    const bool known = l.why.empty();
    out.key("predicted");
    known ? out.number(l.predicted) : out.null();
    out.key("error");
    known ? out.number(l.predicted / l.measured - 1) : out.null();
    out.key("before");
    known ? out.number(l.before) : out.null();
    optional_text(out, "why", l.why);
    out.close();
  }
  out.close();
  out.key("figures").array();
  for (const auto& f : c.figures) {
    out.object(true);
    out.key("name").text(f.name);
    out.key("value").number(f.value);
    out.key("unit").text(unit_of(f));
    out.key("points").integer(f.points);
    out.close();
  }
  out.close();
  out.key("refused").array();
  for (const auto& r : c.refused) {
    out.object();
    optional_text(out, "library", r.library);
    out.key("why").text(r.why);
    out.close();
  }
  out.close();
  out.key("left_out").array();
  for (const auto& l : c.left_out) {
    out.object();
    out.key("file").text(name_of(l.file));
    out.key("line").integer(l.line);
    out.key("count").integer(l.count);
    out.key("why").text(l.why);
    out.close();
  }
  out.close();
  out.key("warnings").array();
  for (const auto& w : c.warnings) {
    out.text(w);
  }
  out.close();
  out.key("collectives").array();
  for (const auto& file : c.collectives) {
    out.text(name_of(file));
  }
  out.close();
  out.close();
  return std::move(out).finish();
}

}  // namespace stepcast::report
