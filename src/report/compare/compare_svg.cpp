// One job under many training systems as bars: step time with its 90 % interval, exposed
// communication and bubble.
#include <fmt/format.h>

#include <algorithm>

#include "../presets/system_kind.h"
#include "../svg/plot.h"
#include "../text/format.h"
#include "stepcast/report/report.h"

namespace stepcast::report {
namespace {

using result::ComparedSystem;
using result::Comparison;

// Pixels.
constexpr double kCompareLeft = 150, kCompareTop = 64, kCompareWidth = 640, kCompareRight = 250,
                 kCompareRow = 26, kCompareBar = 16;
constexpr double kCompareLine = 17;  // of the list of systems that did not run

constexpr const char* kWork = "#0072b2";
constexpr const char* kExposed = "#d55e00";
constexpr const char* kBubble = "#999999";

std::string time_box(double x, double y, double width, const char* fill, bool fits) {
  return fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.0f}\" fill=\"{}\" "
      "fill-opacity=\"{}\"/>",
      x, y, std::max(0.0, width), kCompareBar, fill, fits ? "1" : "0.35");
}

std::string system_bar(const ComparedSystem& s, double y, double per_second) {
  const double all = s.step_time.value;
  const double bubble = std::clamp(s.bubble_fraction, 0.0, 1.0) * all;
  const double exposed = std::clamp(s.exposed, 0.0, all - bubble);
  const double work = all - bubble - exposed;
  const double low = kCompareLeft + s.step_time.low * per_second;
  const double high = kCompareLeft + s.step_time.high * per_second;
  const double middle = y + kCompareBar / 2;
  std::string out = fmt::format(
      "<g><title>{}: {}, MFU {}, exposed communication {}, bubble {}, peak {} of {} GiB</title>",
      xml_text(s.name), duration(all), percent(s.mfu.value), duration(exposed), duration(bubble),
      gibibytes(s.peak.value), gibibytes(static_cast<double>(s.capacity.count())));
  out += svg_text(whole(kCompareLeft - 8), middle + 4, s.name, "end");
  out += time_box(kCompareLeft, y, work * per_second, kWork, s.fits.fits);
  out += time_box(kCompareLeft + work * per_second, y, exposed * per_second, kExposed, s.fits.fits);
  out += time_box(kCompareLeft + (work + exposed) * per_second, y, bubble * per_second, kBubble,
                  s.fits.fits);
  out += fmt::format(
      "<path class=\"ink\" fill=\"none\" d=\"M{0:.1f} {2:.1f}H{1:.1f}M{0:.1f} {3:.1f}v8M{1:.1f} "
      "{3:.1f}v8\"/>",
      low, high, middle, middle - 4);
  const std::string figures = fmt::format("{}, MFU {}{}", duration(all), percent(s.mfu.value),
                                          s.fits ? "" : ", does not fit");
  return out + svg_text(high + 8, middle + 4, figures) + "</g>\n";
}

std::string compare_axis(double most, double per_second, double bottom) {
  std::string out;
  for (const double tick : ticks(most)) {
    const double x = kCompareLeft + tick * per_second;
    out += svg_line("grid", x, kCompareTop, x, bottom) +
           svg_text(x, bottom + 16, fmt::format("{:g}", tick), "middle") + "\n";
  }
  return out + svg_text(kCompareLeft + kCompareWidth / 2, bottom + 34, "step time, s", "middle") +
         "\n";
}

std::string time_key(double x, const char* fill, const char* name) {
  return svg_key(whole(x), whole(40), fill, name, 18);
}

}  // namespace

std::string svg(const Comparison& comparison) {
  double most = 0;
  std::size_t ran = 0;
  for (const ComparedSystem& s : comparison.systems) {
    if (s.ran) {
      most = std::max(most, s.step_time.high);
      ++ran;
    }
  }
  const double per_second = most > 0 ? kCompareWidth / most : 0;
  const double bottom = kCompareTop + kCompareRow * static_cast<double>(ran);
  const double below = bottom + 56;
  const auto refused = static_cast<double>(comparison.systems.size() - ran);
  std::string out = plot_head(kCompareLeft + kCompareWidth + kCompareRight,
                              below + kCompareLine * refused + 16, comparison.title, 24);
  out += time_key(kCompareLeft, kWork, "compute and other time") +
         time_key(kCompareLeft + 170, kExposed, "exposed communication") +
         time_key(kCompareLeft + 350, kBubble, "bubble") + "\n";
  if (most > 0) {
    out += compare_axis(most, per_second, bottom);
  }
  double y = kCompareTop + (kCompareRow - kCompareBar) / 2;
  double line = below;
  for (const ComparedSystem& s : comparison.systems) {
    if (s.ran) {
      out += system_bar(s, y, per_second);
      y += kCompareRow;
    } else {
      out += fmt::format("<text x=\"16\" y=\"{:.1f}\" fill-opacity=\"0.75\">{}</text>\n", line,
                         xml_text(s.name + ": " + brief_reason(s.name, s.reason)));
      line += kCompareLine;
    }
  }
  return out + "</svg>\n";
}

}  // namespace stepcast::report
