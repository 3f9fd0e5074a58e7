// One job under many training systems as bars: step time with its 90 % interval, what is exposed
// and what is bubble.
#include <fmt/format.h>

#include <algorithm>

#include "format.h"
#include "plot.h"
#include "stepcast/report/report.h"
#include "system_kind.h"

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
  out += fmt::format("<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>",
                     kCompareLeft - 8, middle + 4, xml_text(s.name));
  out += time_box(kCompareLeft, y, work * per_second, kWork, s.fits);
  out += time_box(kCompareLeft + work * per_second, y, exposed * per_second, kExposed, s.fits);
  out += time_box(kCompareLeft + (work + exposed) * per_second, y, bubble * per_second, kBubble,
                  s.fits);
  out += fmt::format(
      "<path class=\"ink\" fill=\"none\" d=\"M{0:.1f} {2:.1f}H{1:.1f}M{0:.1f} {3:.1f}v8M{1:.1f} "
      "{3:.1f}v8\"/>",
      low, high, middle, middle - 4);
  out +=
      fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}, MFU {}{}</text></g>\n", high + 8, middle + 4,
                  duration(all), percent(s.mfu.value), s.fits ? "" : ", does not fit");
  return out;
}

std::string time_axis(double most, double per_second, double bottom) {
  std::string out;
  for (const double tick : ticks(most)) {
    const double x = kCompareLeft + tick * per_second;
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\"/>"
        "<text x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"middle\">{4:g}</text>\n",
        x, kCompareTop, bottom, bottom + 16, tick);
  }
  return out +
         fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">step time, s</text>\n",
                     kCompareLeft + kCompareWidth / 2, bottom + 34);
}

std::string legend_key(double x, const char* fill, const char* name) {
  return fmt::format(
      "<rect x=\"{:.0f}\" y=\"40\" width=\"12\" height=\"12\" fill=\"{}\"/><text x=\"{:.0f}\" "
      "y=\"50\">{}</text>",
      x, fill, x + 18, name);
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
  std::string out =
      plot_head(kCompareLeft + kCompareWidth + kCompareRight, below + kCompareLine * refused + 16);
  out += fmt::format("<text class=\"title\" x=\"16\" y=\"24\">{}</text>\n",
                     xml_text(comparison.title));
  out += legend_key(kCompareLeft, kWork, "compute and the rest") +
         legend_key(kCompareLeft + 170, kExposed, "exposed communication") +
         legend_key(kCompareLeft + 350, kBubble, "bubble") + "\n";
  if (most > 0) {
    out += time_axis(most, per_second, bottom);
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
