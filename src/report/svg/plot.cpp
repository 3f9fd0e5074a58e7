#include "plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace stepcast::report {

std::string plot_head(double width, double height, std::string_view title, int title_y) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "width=\"{0:.0f}\" height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<style>\n"
      "  text {{ fill: #222222; }} .title {{ font-size: 15px; font-weight: bold; }}\n"
      "  .paper {{ fill: #ffffff; }} .grid {{ stroke: #dddddd; stroke-width: 1; }}\n"
      "  .band {{ fill: #888888; fill-opacity: 0.25; }}\n"
      "  .dot {{ fill: #ffffff; stroke-width: 1.6; }} .ink {{ stroke: #444444; }}\n"
      "  @media (prefers-color-scheme: dark) {{\n"
      "    text {{ fill: #e6e6e6; }} .paper {{ fill: #16181c; }} .grid {{ stroke: #3a3d44; }}\n"
      "    .dot {{ fill: #16181c; }} .ink {{ stroke: #bbbbbb; }}\n"
      "  }}\n"
      "</style>\n"
      "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n"
      "<text class=\"title\" x=\"16\" y=\"{2}\">{3}</text>\n",
      width, height, title_y, xml_text(title));
}

std::string xml_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

std::string written(Px p) { return fmt::format("{:.{}f}", p.value, p.decimals); }

std::string svg_text(Px x, Px y, std::string_view text, std::string_view anchor) {
  return fmt::format("<text x=\"{}\" y=\"{}\"{}>{}</text>", written(x), written(y),
                     anchor.empty() ? "" : fmt::format(" text-anchor=\"{}\"", anchor),
                     xml_text(text));
}

std::string svg_line(std::string_view kind, Px x1, Px y1, Px x2, Px y2) {
  return fmt::format("<line class=\"{}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>", kind,
                     written(x1), written(y1), written(x2), written(y2));
}

std::string svg_title(std::string_view text) {
  return text.empty() ? "" : fmt::format("<title>{}</title>", xml_text(text));
}

std::string svg_key(Px x, Px y, std::string_view colour, std::string_view name, double gap) {
  constexpr int kSquare = 12, kBaseline = 10;
  return fmt::format("<rect x=\"{0}\" y=\"{1}\" width=\"{2}\" height=\"{2}\" fill=\"{3}\"/>",
                     written(x), written(y), kSquare, colour) +
         svg_text({x.value + gap, x.decimals}, {y.value + kBaseline, y.decimals}, name);
}

namespace {

constexpr std::size_t kLegendColumns = 3;
constexpr double kLegendRow = 20;  // pixels

}  // namespace

std::string legend_entry(const LegendPlace& place, std::size_t i, const std::string& sign,
                         std::string_view name) {
  return fmt::format(
      "<g transform=\"translate({:.0f},{:.0f})\">{}<text x=\"{}\" y=\"4\">{}</text></g>\n",
      place.left + place.column_width * static_cast<double>(i % kLegendColumns),
      place.top + kLegendRow * static_cast<double>(i / kLegendColumns), sign, place.text_left,
      xml_text(name));
}

double legend_rows_height(std::size_t entries) {
  return kLegendRow * static_cast<double>((entries + kLegendColumns - 1) / kLegendColumns);
}

double round_step(double span, double most) {
  const double rough = span / most;
  if (!(rough > 0)) {
    return 0;
  }
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough * (1 - 1e-9)) {
      return factor * power;
    }
  }
  return 10 * power;
}

std::vector<double> multiples(double least, double most, double step) {
  std::vector<double> out;
  for (double n = std::ceil(least / step - 1e-9); step > 0 && n * step <= most * (1 + 1e-9); ++n) {
    out.push_back(n == 0 ? 0 : n * step);  // no "-0"
  }
  return out;
}

std::vector<double> decades(double least, double most, bool fine) {
  std::vector<double> out;
  const int first = static_cast<int>(std::floor(std::log10(least)));
  const int last = static_cast<int>(std::ceil(std::log10(most)));
  for (int power = first; power <= last; ++power) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double value = factor * std::pow(10, power);
      if ((fine || factor == 1.0) && value >= least * (1 - 1e-9) && value <= most * (1 + 1e-9)) {
        out.push_back(value);
      }
    }
  }
  return out;
}

std::vector<double> ticks(double most) {
  constexpr double kMaxTicks = 8;
  return multiples(0, most, round_step(most, kMaxTicks));
}

double PlotScale::at(double value) const {
  if (log) {
    return std::log(value / least) / std::log(most / least);
  }
  return (value - least) / (most - least);
}

PlotScale scale_of(const std::vector<double>& values, bool from_zero) {
  if (values.empty()) {
    return {};
  }
  // Ratio of the largest to the least beyond which the scale is logarithmic.
  constexpr double kMuch = 8;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  PlotScale s{*low, *high, *low > 0 && *high > kMuch * *low};
  constexpr double kMargin = 0.06;  // of the span, beyond the outermost values
  if (s.log) {
    const double beyond = std::pow(s.most / s.least, kMargin);
    s.least /= beyond;
    s.most *= beyond;
  } else {
    const double span = s.most > s.least ? s.most - s.least : std::max(std::abs(s.most), 1.0);
    s.least = from_zero && *low >= 0 ? 0 : s.least - kMargin * span;
    s.most += kMargin * span;
  }
  return s;
}

std::vector<double> ticks(const PlotScale& s) {
  constexpr double kFew = 3;  // decades that leave room for 2 and 5
  return s.log ? decades(s.least, s.most, std::log10(s.most / s.least) <= kFew)
               : multiples(s.least, s.most, ticks(s.most - s.least).at(1));
}

std::string short_number(double value) {
  constexpr std::array kUnits = {"", " k", " M", " G", " T"};
  std::size_t unit = 0;
  while (std::abs(value) >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.3g}{}", value, kUnits[unit]);
}

std::vector<PlotTick> labelled(const std::vector<double>& values) {
  std::vector<PlotTick> out;
  for (const double v : values) {
    out.push_back({v, short_number(v)});
  }
  return out;
}

std::string grid(const PlotFrame& f, const std::vector<PlotTick>& xs,
                 const std::vector<PlotTick>& ys, const std::string& x_name,
                 const std::string& y_name) {
  const double right = f.left + f.width, bottom = f.top + f.height;
  std::string out;
  for (const PlotTick& t : ys) {
    const double y = f.py(t.value);
    out +=
        svg_line("grid", f.left, y, right, y) + svg_text(f.left - 7, y + 4, t.label, "end") + "\n";
  }
  constexpr double kApart = 46;  // pixels that a label needs
  double last = -kApart;
  for (const PlotTick& t : xs) {
    const double x = f.px(t.value);
    out += svg_line("grid", x, f.top, x, bottom);
    if (x - last >= kApart) {
      out += svg_text(x, bottom + 18, t.label, "middle");
      last = x;
    }
    out += "\n";
  }
  return out + svg_text(f.left + f.width / 2, bottom + 38, x_name, "middle") +
         svg_text(f.left - 46, f.top - 12, y_name) + "\n";
}

const char* plot_colour(std::size_t i) {
  // Okabe and Ito's palette, without black and yellow.
  constexpr std::array kColours = {"#0072b2", "#d55e00", "#009e73",
                                   "#cc79a7", "#56b4e9", "#e69f00"};
  return kColours[i % kColours.size()];
}

std::string power_of_two(int power) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  const int unit = std::clamp(power / 10, 0, static_cast<int>(kUnits.size()) - 1);
  return fmt::format("{:g} {}", std::exp2(power - 10 * unit),
                     kUnits[static_cast<std::size_t>(unit)]);
}

}  // namespace stepcast::report
