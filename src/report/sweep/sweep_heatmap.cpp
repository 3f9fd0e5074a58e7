// Throughput of each GPU over two axes, a panel for each combination of the others.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "../svg/plot.h"
#include "../text/format.h"
#include "sweep_axes.h"
#include "sweep_plot.h"

namespace stepcast::report {
namespace {

using result::Sweep;
using result::SweepPoint;

// Pixels.
constexpr double kHeatTop = 64, kHeatPanelHead = 30, kHeatRowName = 110, kHeatColumnNames = 46,
                 kHeatBar = 54;
constexpr double kHeatWidest = 900, kHeatLeast = 480;

struct Rgb {
  double r = 0, g = 0, b = 0;
};
// Viridis at five points (matplotlib, CC0): even steps of lightness, which colour-blind readers can
// distinguish.
constexpr std::array<Rgb, 5> kViridis = {
    {{68, 1, 84}, {59, 82, 139}, {33, 145, 140}, {94, 201, 98}, {253, 231, 37}}};

Rgb viridis(double share) {
  const double place = std::clamp(share, 0.0, 1.0) * (kViridis.size() - 1);
  const auto i = std::min(static_cast<std::size_t>(place), kViridis.size() - 2);
  const double f = place - static_cast<double>(i);
  const Rgb &a = kViridis[i], &b = kViridis[i + 1];
  return {a.r + f * (b.r - a.r), a.g + f * (b.g - a.g), a.b + f * (b.b - a.b)};
}

std::string hex(const Rgb& c) {
  return fmt::format("#{:02x}{:02x}{:02x}", std::lround(c.r), std::lround(c.g), std::lround(c.b));
}

// The colour of text on a background.
const char* ink(const Rgb& c) {
  return 0.3 * c.r + 0.59 * c.g + 0.11 * c.b > 140 ? "#111111" : "#ffffff";
}

struct HeatMap {
  const Sweep& sweep;
  std::size_t rows = 0, columns = 0;  // axes
  double cell_width = 0, cell_height = 0;
  double least = 0, most = 1;
  double share(double value) const { return most > least ? (value - least) / (most - least) : 1; }
};

std::string heat_square(const HeatMap& m, const SweepPoint& p, double left, double top) {
  const double x = left + m.cell_width * static_cast<double>(p.at[m.columns]);
  const double y = top + m.cell_height * static_cast<double>(p.at[m.rows]);
  const double value = p.tokens_per_second_per_gpu.value;
  const Rgb c = viridis(m.share(value));
  const std::string fill = p.fits ? fmt::format("fill=\"{}\"", hex(c)) : "class=\"band\"";
  std::string out = fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" {}>{}</rect>", x, y,
      m.cell_width - 1, m.cell_height - 1, fill, svg_title(tooltip_of(p, m.sweep)));
  constexpr double kReadable = 34;
  if (m.cell_width >= kReadable) {
    const std::string style = p.fits ? fmt::format(" style=\"fill:{}\"", ink(c)) : "";
    out += fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" font-size=\"11\" "
        "pointer-events=\"none\"{}>{}</text>",
        x + m.cell_width / 2, y + m.cell_height / 2 + 4, style,
        p.fits  ? short_number(value)
        : p.ran ? "memory"
                : "–");
  }
  return out + "\n";
}

std::string heat_names(const HeatMap& m, double left, double top) {
  const auto& rows = m.sweep.axes[m.rows];
  const auto& columns = m.sweep.axes[m.columns];
  std::string out;
  const double all = m.cell_height * static_cast<double>(rows.values.size());
  constexpr double kLine = 14;
  double last = -kLine;
  for (std::size_t i = 0; i < rows.values.size(); ++i) {
    const double y = m.cell_height * (static_cast<double>(i) + 0.5);
    if (y - last >= kLine) {
      out += svg_text(left - 6, top + y + 4, shorten(axis_label(rows, i), 15), "end") + "\n";
      last = y;
    }
  }
  constexpr double kLetter = 7;
  last = -1e9;
  for (std::size_t i = 0; i < columns.values.size(); ++i) {
    const std::string text = shorten(axis_label(columns, i), 14);
    const double x = m.cell_width * (static_cast<double>(i) + 0.5);
    const double half = kLetter * static_cast<double>(text.size()) / 2;
    if (x - half >= last) {
      out += svg_text(left + x, top + all + 16, text, "middle") + "\n";
      last = x + half;
    }
  }
  const double middle = left + m.cell_width * static_cast<double>(columns.values.size()) / 2;
  return out + svg_text(middle, top + all + 34, axis_name(columns), "middle") + "\n";
}

std::string colour_bar(const HeatMap& m, double left, double top) {
  std::string out;
  constexpr int kSteps = 48;
  constexpr double kStep = 5;
  for (int i = 0; i < kSteps; ++i) {
    out +=
        fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"12\" fill=\"{}\"/>",
                    left + kStep * i, top, kStep + 0.5, hex(viridis((i + 0.5) / kSteps)));
  }
  const double right = left + kSteps * kStep;
  return out + "\n" + svg_text(left, top + 28, short_number(m.least)) +
         svg_text(right, top + 28, short_number(m.most), "end") +
         svg_text(right + 12, top + 11, "tokens/s of each GPU") + "\n";
}

HeatMap map_of(const Sweep& sweep) {
  const auto axes = other_axes(sweep, {});
  // Several panels are placed side by side, so their cells are narrower.
  const double widest_cell = axes.size() > 2 ? 60 : 96;
  HeatMap m{sweep, axes[0], axes[1]};
  const auto columns = static_cast<double>(sweep.axes[m.columns].values.size());
  const auto rows = static_cast<double>(sweep.axes[m.rows].values.size());
  m.cell_width = std::clamp((kHeatWidest - kHeatRowName) / columns, 5.0, widest_cell);
  m.cell_height = std::clamp(480 / rows, 5.0, 34.0);
  std::vector<double> values;
  for (const SweepPoint& p : sweep.points) {
    if (p.fits) {
      values.push_back(p.tokens_per_second_per_gpu.value);
    }
  }
  if (!values.empty()) {
    m.least = *std::min_element(values.begin(), values.end());
    m.most = *std::max_element(values.begin(), values.end());
  }
  return m;
}

}  // namespace

std::string heatmap_svg(const Sweep& sweep) {
  const HeatMap m = map_of(sweep);
  const auto panels = groups_of(sweep, other_axes(sweep, {m.rows, m.columns}));
  const double high = m.cell_height * static_cast<double>(sweep.axes[m.rows].values.size());
  const double wide = m.cell_width * static_cast<double>(sweep.axes[m.columns].values.size());
  const double across = kHeatRowName + wide, down = kHeatPanelHead + high + kHeatColumnNames;
  const auto columns = std::max<std::size_t>(1, static_cast<std::size_t>(kHeatWidest / across));
  const auto count = std::min(columns, panels.size());
  const std::size_t lines = (panels.size() + columns - 1) / columns;
  constexpr double kLetter = 9;  // of the title, pixels
  const double width = std::max({across * static_cast<double>(count) + 24, kHeatLeast,
                                 32 + kLetter * static_cast<double>(sweep.title.size())});
  const double bottom = kHeatTop + down * static_cast<double>(lines);
  std::string out = plot_head(width, bottom + kHeatBar, sweep.title, 28);
  out += svg_text(whole(16), whole(50), "rows: " + axis_name(sweep.axes[m.rows])) + "\n";
  for (std::size_t i = 0; i < panels.size(); ++i) {
    const double left = kHeatRowName + across * static_cast<double>(i % columns);
    const double top = kHeatTop + down * static_cast<double>(i / columns);
    out += svg_text(left, top + 20, panels[i].name) + "\n";
    for (const SweepPoint* p : panels[i].points) {
      out += heat_square(m, *p, left, top + kHeatPanelHead);
    }
    out += heat_names(m, left, top + kHeatPanelHead);
  }
  return out + colour_bar(m, kHeatRowName, bottom + 10) + "</svg>\n";
}

}  // namespace stepcast::report
