#include "plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace stepcast::report {

std::string plot_head(double width, double height) {
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
      "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n",
      width, height);
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

std::vector<double> ticks(double most) {
  constexpr double kMost = 8;
  const double rough = most / kMost;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough * (1 - 1e-9)) {
      step = factor * power;
      break;
    }
  }
  std::vector<double> out;
  for (int i = 0; i * step <= most * (1 + 1e-9); ++i) {
    out.push_back(i * step);
  }
  return out;
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
