#include "page_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "../svg/plot.h"

namespace stepcast::report {
namespace {

// Units of the view box, which is stretched to the plot's container.
constexpr double kWide = 1000, kHigh = 100;

double share(const PlotAxis& axis, double value) {
  const auto at = [&](double v) { return axis.logarithmic ? std::log10(v) : v; };
  const double span = at(axis.to) - at(axis.from);
  const double s = span != 0 ? (at(value) - at(axis.from)) / span : 0;
  return std::isfinite(s) ? std::clamp(s, -0.001, 1.001) : 0;
}

}  // namespace

std::vector<std::pair<double, std::string>> round_labels(const PlotAxis& axis, int most) {
  std::vector<double> values;
  if (axis.logarithmic) {
    const int powers = static_cast<int>(std::ceil(std::log10(axis.to))) -
                       static_cast<int>(std::floor(std::log10(axis.from)));
    values = decades(axis.from, axis.to, 3 * powers <= most);
  } else {
    values = multiples(axis.from, axis.to, round_step(axis.to - axis.from, std::max(1, most)));
  }
  std::vector<std::pair<double, std::string>> out;
  for (const double v : values) {
    out.emplace_back(v, fmt::format("{:.6g}", v));
  }
  return out;
}

Plot::Plot(PlotAxis x, PlotAxis y, int height)
    : x_(std::move(x)), y_(std::move(y)), height_(height) {
  constexpr int kLabelsAcross = 8;
  constexpr int kPixelsPerLabel = 28;
  if (x_.labels.empty()) {
    x_.labels = round_labels(x_, kLabelsAcross);
  }
  if (y_.labels.empty()) {
    y_.labels = round_labels(y_, std::max(2, height / kPixelsPerLabel));
  }
  for (const auto& [value, text] : y_.labels) {
    drawing_ += fmt::format("<path class=\"grid\" d=\"M0 {:.2f}H{:.0f}\"/>", py(value), kWide);
  }
}

double Plot::px(double x) const { return kWide * share(x_, x); }
double Plot::py(double y) const { return kHigh * (1 - share(y_, y)); }

// A path to a thousandth of the width and the height; points that do not change it are left out.
std::string Plot::path(const Points& points, const char* first) const {
  std::string out;
  long was_x = 0, was_y = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const long x = std::lround(10 * px(points[i].first));
    const long y = std::lround(10 * py(points[i].second));
    if (!out.empty() && x == was_x && y == was_y) {
      continue;
    }
    const double fx = static_cast<double>(x) / 10, fy = static_cast<double>(y) / 10;
    if (out.empty()) {
      out = fmt::format("{}{:g} {:g}", first, fx, fy);
    } else if (y == was_y) {
      out += fmt::format("H{:g}", fx);
    } else if (x == was_x) {
      out += fmt::format("V{:g}", fy);
    } else {
      out += fmt::format("L{:g} {:g}", fx, fy);
    }
    was_x = x;
    was_y = y;
  }
  return out;
}

void Plot::line(const Points& points, std::string_view kind, std::string_view hint) {
  drawing_ += fmt::format("<path class=\"{}\" d=\"{}\">{}</path>\n", kind, path(points, "M"),
                          svg_title(hint));
}

void Plot::area(const Points& upper, const Points& lower, std::string_view kind,
                std::string_view hint) {
  const Points back(lower.rbegin(), lower.rend());
  drawing_ += fmt::format("<path class=\"{}\" d=\"{}{}Z\">{}</path>\n", kind, path(upper, "M"),
                          path(back, "L"), svg_title(hint));
}

void Plot::dot(double x, double y, std::string_view kind, std::string_view hint) {
  // A line without length and with round caps: a circle that the stretching leaves round.
  drawing_ += fmt::format("<path class=\"{}\" d=\"M{:.1f} {:.2f}h0\">{}</path>\n", kind, px(x),
                          py(y), svg_title(hint));
}

void Plot::box(double x0, double y0, double x1, double y1, std::string_view kind,
               std::string_view hint, std::string_view style) {
  const auto [left, right] =
      std::minmax({px(x0), px(x1)});  // by value, since references would dangle
  const auto [top, bottom] = std::minmax({py(y0), py(y1)});
  drawing_ += fmt::format(
      "<rect class=\"{}\"{} x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\">{}</rect>",
      kind, style.empty() ? "" : fmt::format(" style=\"{}\"", xml_text(style)), left, top,
      right - left, bottom - top, svg_title(hint));
}

void Plot::runs(const Runs& runs, double y0, double y1, std::string_view kind) {
  drawing_ += fmt::format("<path class=\"{}\" d=\"", kind);
  for (const auto& [from, to] : runs) {
    drawing_ += fmt::format("M{:.5g} {:.5g}H{:.5g}V{:.5g}H{:.5g}z", px(from), py(y0), px(to),
                            py(y1), px(from));
  }
  drawing_ += "\"/>\n";
}

void Plot::name(double x, double y, std::string_view text, bool before, std::string_view kind) {
  notes_ += fmt::format("<span class=\"name {}{}\" style=\"left:{:.2f}%;top:{:.2f}%\">{}</span>",
                        before ? "before " : "", kind, px(x) / kWide * 100, py(y) / kHigh * 100,
                        xml_text(text));
}

void Plot::rule(double y, std::string_view text) {
  drawing_ += fmt::format("<path class=\"rule\" d=\"M0 {:.2f}H{:.0f}\"/>\n", py(y), kWide);
  notes_ += fmt::format("<span class=\"note\" style=\"top:{:.1f}%\">{}</span>", py(y) / kHigh * 100,
                        xml_text(text));
}

// The last label has the unit.
std::string Plot::label(const PlotAxis& axis, std::size_t i) {
  const bool last = i + 1 == axis.labels.size();
  return axis.labels[i].second + (last && !axis.unit.empty() ? " " + axis.unit : "");
}

// The last one, which has the unit, ends with the plot instead of reaching over its edge; on a
// phone the one before makes room for it.
std::string Plot::across() const {
  constexpr double kNearEdge = 0.95 * kWide, kNarrow = 0.25 * kWide;
  std::string out;
  const std::size_t count = x_.labels.size();
  const bool edge = count > 0 && !x_.unit.empty() && px(x_.labels.back().first) > kNearEdge;
  for (std::size_t i = 0; i < count; ++i) {
    const double at = px(x_.labels[i].first);
    const bool last = i + 1 == count;
    const bool tight = edge && i + 2 == count && px(x_.labels.back().first) - at < kNarrow;
    out += fmt::format("<span class=\"x{}\" style=\"left:{:.1f}%\">{}</span>",
                       last && edge ? " end"
                       : tight      ? " tight"
                                    : "",
                       at / kWide * 100, xml_text(label(x_, i)));
  }
  return out;
}

std::string Plot::finish(std::string_view description) const {
  std::string out = fmt::format(
      "<div class=\"plot\" role=\"img\" aria-label=\"{}\"><svg viewBox=\"0 0 {:.0f} {:.0f}\" "
      "height=\"{}\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\n",
      xml_text(description), kWide, kHigh, height_);
  out += drawing_ + "</svg><div class=\"frame\" aria-hidden=\"true\">";
  for (std::size_t i = 0; i < y_.labels.size(); ++i) {
    out += fmt::format("<span class=\"y\" style=\"bottom:{:.1f}%\">{}</span>",
                       100 - py(y_.labels[i].first) / kHigh * 100, xml_text(label(y_, i)));
  }
  out += across();
  return out + notes_ + "</div></div>\n";
}

Plot::Points steps(const Plot::Points& points) {
  Plot::Points out;
  for (const auto& [x, y] : points) {
    if (!out.empty() && out.back().second != y) {
      out.emplace_back(x, out.back().second);
    }
    out.emplace_back(x, y);
  }
  return out;
}

}  // namespace stepcast::report
