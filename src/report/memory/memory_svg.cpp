// Memory over the step as a picture: a panel for each stage with stacked categories, the reserved
// memory and the GPU's capacity.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "../svg/plot.h"
#include "../text/format.h"
#include "memory_chart.h"
#include "stepcast/report/report.h"

namespace stepcast::report {
namespace {

using result::MemorySample;
using result::StageTimeline;

// Pixels.
constexpr double kMemoryLeft = 64, kMemoryTop = 78, kMemoryWidth = 900, kMemoryRight = 110,
                 kMemoryPanel = 170, kMemoryGap = 54;

// In chart_kinds()' order: Okabe and Ito's colours, which colour-blind readers can distinguish.
constexpr std::array kMemoryFill = {"#0072b2", "#009e73", "#56b4e9", "#f0e442", "#999999",
                                    "#e69f00", "#cc79a7", "#d55e00", "none"};

struct Axes {
  double begin = 0, span = 1;  // seconds
  double top = 1;              // bytes
  double bottom = 0;           // pixel of zero bytes
  double x(Time t) const { return kMemoryLeft + (to_seconds(t) - begin) / span * kMemoryWidth; }
  double y(double bytes) const { return bottom - bytes / top * kMemoryPanel; }
};

// The upper edge of the first `layers` kinds, as steps.
std::vector<std::pair<double, double>> edge(const StageTimeline& s, std::size_t layers,
                                            const Axes& axes) {
  std::vector<std::pair<double, double>> out;
  for (const MemorySample& sample : s.samples) {
    const auto parts = chart_parts(sample);
    double sum = 0;
    for (std::size_t i = 0; i < layers; ++i) {
      sum += parts[i];
    }
    const double x = axes.x(sample.at), y = axes.y(sum);
    if (!out.empty()) {
      out.emplace_back(x, out.back().second);
    }
    out.emplace_back(x, y);
  }
  return out;
}

// Steps as a path, in tenths of a pixel; points that do not change it are left out.
std::string path(const std::vector<std::pair<double, double>>& points, const char* first) {
  std::string out;
  long x = 0, y = 0, to = 0;  // the end of what is drawn, and the x up to which its level continues
  for (const auto& [px, py] : points) {
    const long nx = std::lround(10 * px), ny = std::lround(10 * py);
    if (out.empty()) {
      out = fmt::format("{}{:.1f} {:.1f}", first, px, py);
      x = nx;
      y = ny;
    } else if (ny != y) {
      out += to != x ? fmt::format("H{:g}", static_cast<double>(to) / 10) : "";
      out += fmt::format("V{:g}", static_cast<double>(ny) / 10);
      x = to;
      y = ny;
    }
    to = nx;
  }
  return out + (to != x ? fmt::format("H{:g}", static_cast<double>(to) / 10) : "");
}

std::string line(double y, const char* label, double bytes) {
  return fmt::format(
             "<path class=\"ink\" fill=\"none\" stroke-dasharray=\"5 4\" d=\"M{:.1f} "
             "{:.1f}h{:.0f}\"/>",
             kMemoryLeft, y, kMemoryWidth) +
         svg_text(whole(kMemoryLeft + kMemoryWidth + 6), y + 4,
                  fmt::format("{} {}", label, gibibytes(bytes))) +
         "\n";
}

std::string panel(const StageTimeline& s, const Axes& axes, double capacity) {
  std::string out = fmt::format(
      "<text x=\"{:.0f}\" y=\"{:.1f}\" font-weight=\"bold\">stage {}: {} GiB allocated, {} active, "
      "{} reserved, {} of the process</text>\n",
      kMemoryLeft, axes.bottom - kMemoryPanel - 8, s.stage, gibibytes(bytes_of(s.allocated)),
      gibibytes(bytes_of(s.active)), gibibytes(bytes_of(s.reserved)),
      gibibytes(bytes_of(s.process)));
  for (const double tick : ticks(axes.top / kGibibyte)) {
    const double y = axes.y(tick * kGibibyte);
    out += svg_line("grid", whole(kMemoryLeft), y, whole(kMemoryLeft + kMemoryWidth), y) +
           svg_text(whole(kMemoryLeft - 6), y + 4, fmt::format("{:g}", tick), "end") + "\n";
  }
  const auto kinds = chart_kinds();
  auto lower = edge(s, 0, axes);
  for (std::size_t i = 0; i + 1 < kinds.size(); ++i) {
    auto upper = edge(s, i + 1, axes);
    const bool empty = upper == lower;
    if (!empty) {
      const auto back = std::vector(lower.rbegin(), lower.rend());
      // The outline shows levels that last less than a pixel, the peak's among them.
      out +=
          fmt::format("<path fill=\"{0}\" stroke=\"{0}\" d=\"{1}{2}Z\"><title>{3}</title></path>\n",
                      kMemoryFill[i], path(upper, "M"), path(back, "L"), kinds[i].name);
    }
    lower = std::move(upper);
  }
  out += fmt::format("<path class=\"ink\" fill=\"none\" d=\"{}\"><title>reserved</title></path>\n",
                     path(edge(s, kinds.size(), axes), "M"));
  const double x = axes.x(s.peak_at);
  const double y = axes.y(bytes_of(s.allocated));
  out += fmt::format(
      "<circle class=\"dot ink\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"><title>peak: {} GiB at "
      "{}{}</title></circle>\n",
      x, y, gibibytes(bytes_of(s.allocated)), duration(to_seconds(s.peak_at)),
      s.peak_in.empty() ? "" : ", " + xml_text(s.peak_in));
  out += line(axes.y(capacity), "capacity", capacity);
  out += line(axes.y(bytes_of(s.process)), "process", bytes_of(s.process));
  for (const double tick : ticks(axes.span)) {
    out += svg_text(kMemoryLeft + tick / axes.span * kMemoryWidth, axes.bottom + 15,
                    fmt::format("{:g}", tick), "middle") +
           "\n";
  }
  return out;
}

}  // namespace

std::string svg(const result::MemoryTimeline& memory) {
  const double capacity = bytes_of(memory.capacity);
  double top = capacity;
  for (const StageTimeline& s : memory.stages) {
    top = std::max(top, bytes_of(s.process));
  }
  const auto panels = static_cast<double>(memory.stages.size());
  const double height = kMemoryTop + panels * (kMemoryPanel + kMemoryGap) + 30;
  std::string out = plot_head(kMemoryLeft + kMemoryWidth + kMemoryRight, height, memory.title, 24);
  const auto kinds = chart_kinds();
  double x = kMemoryLeft;
  for (std::size_t i = 0; i + 1 < kinds.size(); ++i) {
    out += svg_key(whole(x), whole(36), kMemoryFill[i], kinds[i].name, 17) + "\n";
    x += 34 + 7.0 * static_cast<double>(kinds[i].name.size());
  }
  double bottom = kMemoryTop + kMemoryPanel;
  for (const StageTimeline& s : memory.stages) {
    if (s.samples.empty()) {
      continue;
    }
    Axes axes;
    axes.begin = to_seconds(s.samples.front().at);
    axes.span = std::max(1e-12, to_seconds(s.samples.back().at - s.samples.front().at));
    axes.top = top * 1.02;
    axes.bottom = bottom;
    out += panel(s, axes, capacity);
    bottom += kMemoryPanel + kMemoryGap;
  }
  return out +
         svg_text(kMemoryLeft + kMemoryWidth / 2, height - 12, "seconds of the step; GiB",
                  "middle") +
         "\n</svg>\n";
}

}  // namespace stepcast::report
