#include "scatter_validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "plot.h"
#include "stepcast/base/statistics.h"

namespace stepcast::report {
namespace {

// Pixels.
constexpr double kLeft = 64, kTop = 16, kSide = 620, kBelow = 48, kRight = 16;
constexpr double kStripLeft = 180, kStripWidth = 560, kStripRow = 22, kStripTop = 12;
constexpr double kMostError = 0.5;  // the strips' ends

// Okabe and Ito's palette, which red-green blindness leaves apart.
constexpr std::array kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"};

std::string shape(std::size_t kind, double x, double y) {
  constexpr double r = 3.6;
  switch (kind % 4) {
    case 0:
      return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\"", x, y, r);
    case 1:
      return fmt::format("<path d=\"M{:.1f} {:.1f}h{:.1f}v{:.1f}h{:.1f}z\"", x - r, y - r, 2 * r,
                         2 * r, -2 * r);
    case 2:
      return fmt::format("<path d=\"M{:.1f} {:.1f}l{:.1f} {:.1f}h{:.1f}z\"", x, y - 1.3 * r,
                         1.2 * r, 2.2 * r, -2.4 * r);
    default:
      return fmt::format("<path d=\"M{:.1f} {:.1f}l{:.1f} {:.1f}l{:.1f} {:.1f}l{:.1f} {:.1f}z\"", x,
                         y - 1.4 * r, 1.4 * r, 1.4 * r, -1.4 * r, 1.4 * r, -1.4 * r, -1.4 * r);
  }
}

std::string open_mark(std::size_t source, double x, double y) {
  return shape(source / kColours.size(), x, y) +
         fmt::format(" fill=\"{0}\" fill-opacity=\"0.55\" stroke=\"{0}\"",
                     kColours[source % kColours.size()]);
}

std::string told(const ScatterPoint& p, const std::string& unit, double per_unit) {
  std::string text =
      fmt::format("{}\n{}: measured {:.4g} {}, predicted {:.4g} ({:.4g} to {:.4g}), {:+.1f} %",
                  p.row->id, p.row->metric, p.measured / per_unit, unit, p.predicted / per_unit,
                  p.low / per_unit, p.high / per_unit, 100 * (p.predicted / p.measured - 1));
  return p.row->why.empty() ? text : text + "\n" + p.row->why;
}

// Ticks at 1, 2 and 5 times powers of ten where they are few, else at the powers; inside one decade
// round steps.
std::vector<double> decades(double least, double most) {
  std::vector<double> out;
  constexpr double kDecade = 10, kSteps = 5;
  if (most < kDecade * least) {
    const double power = std::pow(10, std::floor(std::log10((most - least) / kSteps)));
    const double rough = (most - least) / kSteps / power;
    const double step = power * (rough > 5 ? 10 : rough > 2 ? 5 : rough > 1 ? 2 : 1);
    for (double n = std::ceil(least / step); n * step <= most; ++n) {
      out.push_back(n * step);
    }
    return out;
  }
  const int first = static_cast<int>(std::floor(std::log10(least)));
  const int last = static_cast<int>(std::ceil(std::log10(most)));
  const bool fine = last - first <= 3;
  for (int power = first; power <= last; ++power) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double value = factor * std::pow(10, power);
      if ((fine || factor == 1.0) && value >= least && value <= most) {
        out.push_back(value);
      }
    }
  }
  return out;
}

}  // namespace

std::string scatter_mark(std::size_t source, double x, double y) {
  return open_mark(source, x, y) + "/>";
}

std::string scatter(const std::vector<ScatterPoint>& points, const std::string& unit,
                    double per_unit) {
  double least = 0, most = 0;
  for (const ScatterPoint& p : points) {
    const double low = std::min(p.measured, p.predicted) / per_unit;
    least = least == 0 ? low : std::min(least, low);
    most = std::max({most, p.measured / per_unit, p.predicted / per_unit});
  }
  if (!(least > 0)) {
    return "";
  }
  least /= 1.3;
  most *= 1.3;
  const double decade = kSide / std::log10(most / least);
  const auto x = [&](double v) { return kLeft + decade * std::log10(v / least); };
  const auto y = [&](double v) { return kTop + kSide - decade * std::log10(v / least); };
  const double width = kLeft + kSide + kRight;
  const double height = kTop + kSide + kBelow;
  std::string out = fmt::format(
      "<svg viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" role=\"img\">\n",
      width, height);
  const auto diagonal = [&](double factor, const char* name) {
    const double from = std::max(least, least / factor);
    const double to = std::min(most, most / factor);
    out += fmt::format(
        "<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", name,
        x(from), y(from * factor), x(to), y(to * factor));
  };
  for (const double tick : decades(least, most)) {
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{2:.1f}\" y2=\"{1:.1f}\"/>"
        "<line class=\"grid\" x1=\"{3:.1f}\" y1=\"{4:.1f}\" x2=\"{3:.1f}\" y2=\"{5:.1f}\"/>"
        "<text x=\"{6:.1f}\" y=\"{7:.1f}\" text-anchor=\"end\">{8:g}</text>"
        "<text x=\"{3:.1f}\" y=\"{9:.1f}\" text-anchor=\"middle\">{8:g}</text>\n",
        kLeft, y(tick), kLeft + kSide, x(tick), kTop, kTop + kSide, kLeft - 6, y(tick) + 4, tick,
        kTop + kSide + 16);
  }
  diagonal(1, "diagonal");
  diagonal(1.1, "tenth");
  diagonal(1 / 1.1, "tenth");
  for (const ScatterPoint& p : points) {
    out += fmt::format("{}><title>{}</title>",
                       open_mark(p.source, x(p.measured / per_unit), y(p.predicted / per_unit)),
                       xml_text(told(p, unit, per_unit)));
    out += p.source / kColours.size() % 4 == 0 ? "</circle>\n" : "</path>\n";
  }
  return out + fmt::format(
                   "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">measured, {}</text>"
                   "<text transform=\"translate(14,{:.1f}) rotate(-90)\" "
                   "text-anchor=\"middle\">predicted, {}</text>\n</svg>\n",
                   kLeft + kSide / 2, kTop + kSide + 38, unit, kTop + kSide / 2, unit);
}

std::string error_strips(const std::vector<ScatterPoint>& points,
                         const std::vector<std::string>& sources) {
  std::vector<std::vector<const ScatterPoint*>> rows(sources.size());
  for (const ScatterPoint& p : points) {
    rows[p.source].push_back(&p);
  }
  std::erase_if(rows, [](const auto& row) { return row.empty(); });
  const double bottom = kStripTop + kStripRow * static_cast<double>(rows.size());
  const double width = kStripLeft + kStripWidth + 24;
  const auto x = [](double error) {
    return kStripLeft +
           kStripWidth * (0.5 + 0.5 * std::clamp(error, -kMostError, kMostError) / kMostError);
  };
  std::string out = fmt::format(
      "<svg viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" role=\"img\">\n",
      width, bottom + 40);
  for (int tick = -5; tick <= 5; ++tick) {
    const double at = x(0.1 * tick);
    out += fmt::format(
        "<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>"
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}{} %</text>\n",
        tick == 0 ? "diagonal" : "grid", at, kStripTop, at, bottom, at, bottom + 16,
        tick > 0 ? "+" : "", 10 * tick);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double y = kStripTop + kStripRow * (static_cast<double>(i) + 0.5);
    std::vector<double> errors;
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
                       kStripLeft - 12, y + 4, xml_text(sources[rows[i].front()->source]));
    for (const ScatterPoint* p : rows[i]) {
      const double error = p->predicted / p->measured - 1;
      errors.push_back(error);
      out += fmt::format("<path class=\"tick\" d=\"M{:.1f} {:.1f}v12\"><title>{}</title></path>\n",
                         x(error), y - 6,
                         xml_text(fmt::format("{}: {:+.1f} %", p->row->id, 100 * error)));
    }
    const double at = x(median(errors));
    out += fmt::format("<path class=\"median\" d=\"M{:.1f} {:.1f}v18\"/>\n", at, y - 9);
  }
  return out + fmt::format(
                   "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">predicted over "
                   "measured, less 1</text>\n</svg>\n",
                   kStripLeft + kStripWidth / 2, bottom + 34);
}

}  // namespace stepcast::report
