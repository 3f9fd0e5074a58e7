#include "validation_scatter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "../svg/plot.h"
#include "stepcast/base/statistics.h"

namespace stepcast::report {
namespace {

// Pixels.
constexpr double kScatterLeft = 64, kScatterTop = 16, kScatterSide = 620, kScatterBelow = 48,
                 kScatterRight = 16;
constexpr double kScatterStripLeft = 180, kScatterStripWidth = 560, kScatterStripRow = 22,
                 kScatterStripTop = 12;
constexpr double kScatterMostError = 0.5;  // error at the ends of the strips

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
  return shape(source / kPlotColours, x, y) +
         fmt::format(" fill=\"{0}\" fill-opacity=\"0.55\" stroke=\"{0}\"", plot_colour(source));
}

std::string scatter_facts(const ScatterPoint& p, const std::string& unit, double per_unit) {
  std::string text =
      fmt::format("{}\n{}: measured {:.4g} {}, predicted {:.4g} ({:.4g} to {:.4g}), {:+.1f} %",
                  p.row->id, p.row->metric, p.measured / per_unit, unit, p.predicted / per_unit,
                  p.low / per_unit, p.high / per_unit, 100 * (p.predicted / p.measured - 1));
  return p.row->why.empty() ? text : text + "\n" + p.row->why;
}

// Ticks at 1, 2 and 5 times powers of ten where these are few, else at the powers of ten; inside
// one decade at round steps.
std::vector<double> scatter_ticks(double least, double most) {
  constexpr double kDecade = 10, kSteps = 5;
  if (most < kDecade * least) {
    return multiples(least, most, round_step(most - least, kSteps));
  }
  const double powers = std::ceil(std::log10(most)) - std::floor(std::log10(least));
  return decades(least, most, powers <= 3);
}

// Opens a picture inside a page, whose style sheet has the colours.
std::string page_picture(double width, double height) {
  return fmt::format(
      "<svg viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" role=\"img\">\n",
      width, height);
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
  const double decade = kScatterSide / std::log10(most / least);
  const auto x = [&](double v) { return kScatterLeft + decade * std::log10(v / least); };
  const auto y = [&](double v) {
    return kScatterTop + kScatterSide - decade * std::log10(v / least);
  };
  const double width = kScatterLeft + kScatterSide + kScatterRight;
  const double height = kScatterTop + kScatterSide + kScatterBelow;
  std::string out = page_picture(width, height);
  const auto diagonal = [&](double factor, const char* name) {
    const double from = std::max(least, least / factor);
    const double to = std::min(most, most / factor);
    out += svg_line(name, x(from), y(from * factor), x(to), y(to * factor)) + "\n";
  };
  const double right = kScatterLeft + kScatterSide, bottom = kScatterTop + kScatterSide;
  for (const double tick : scatter_ticks(least, most)) {
    const std::string label = fmt::format("{:g}", tick);
    out += svg_line("grid", kScatterLeft, y(tick), right, y(tick)) +
           svg_line("grid", x(tick), kScatterTop, x(tick), bottom) +
           svg_text(kScatterLeft - 6, y(tick) + 4, label, "end") +
           svg_text(x(tick), bottom + 16, label, "middle") + "\n";
  }
  diagonal(1, "diagonal");
  diagonal(1.1, "tenth");
  diagonal(1 / 1.1, "tenth");
  for (const ScatterPoint& p : points) {
    out += open_mark(p.source, x(p.measured / per_unit), y(p.predicted / per_unit)) + ">" +
           svg_title(scatter_facts(p, unit, per_unit));
    out += p.source / kPlotColours % 4 == 0 ? "</circle>\n" : "</path>\n";
  }
  return out +
         svg_text(kScatterLeft + kScatterSide / 2, bottom + 38, "measured, " + unit, "middle") +
         fmt::format(
             "<text transform=\"translate(14,{:.1f}) rotate(-90)\" "
             "text-anchor=\"middle\">predicted, {}</text>\n</svg>\n",
             kScatterTop + kScatterSide / 2, unit);
}

std::string error_strips(const std::vector<ScatterPoint>& points,
                         const std::vector<std::string>& sources) {
  std::vector<std::vector<const ScatterPoint*>> rows(sources.size());
  for (const ScatterPoint& p : points) {
    rows[p.source].push_back(&p);
  }
  std::erase_if(rows, [](const auto& row) { return row.empty(); });
  const double bottom = kScatterStripTop + kScatterStripRow * static_cast<double>(rows.size());
  const double width = kScatterStripLeft + kScatterStripWidth + 24;
  const auto x = [](double error) {
    return kScatterStripLeft +
           kScatterStripWidth *
               (0.5 +
                0.5 * std::clamp(error, -kScatterMostError, kScatterMostError) / kScatterMostError);
  };
  std::string out = page_picture(width, bottom + 40);
  for (int tick = -5; tick <= 5; ++tick) {
    const double at = x(0.1 * tick);
    out +=
        svg_line(tick == 0 ? "diagonal" : "grid", at, kScatterStripTop, at, bottom) +
        svg_text(at, bottom + 16, fmt::format("{}{} %", tick > 0 ? "+" : "", 10 * tick), "middle") +
        "\n";
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double y = kScatterStripTop + kScatterStripRow * (static_cast<double>(i) + 0.5);
    std::vector<double> errors;
    out += svg_text(kScatterStripLeft - 12, y + 4, sources[rows[i].front()->source], "end") + "\n";
    for (const ScatterPoint* p : rows[i]) {
      const double error = p->predicted / p->measured - 1;
      errors.push_back(error);
      out += fmt::format("<path class=\"tick\" d=\"M{:.1f} {:.1f}v12\">{}</path>\n", x(error),
                         y - 6, svg_title(fmt::format("{}: {:+.1f} %", p->row->id, 100 * error)));
    }
    const double at = x(median(errors));
    out += fmt::format("<path class=\"median\" d=\"M{:.1f} {:.1f}v18\"/>\n", at, y - 9);
  }
  return out +
         svg_text(kScatterStripLeft + kScatterStripWidth / 2, bottom + 34,
                  "relative error (predicted / measured - 1)", "middle") +
         "\n</svg>\n";
}

}  // namespace stepcast::report
