#include "bar.h"

#include <algorithm>
#include <cmath>

namespace stepcast::report {

std::string stacked_bar(const std::vector<BarKind>& kinds, const std::vector<double>& parts,
                        double whole, int cells, const BarKind& free, const Paint& paint,
                        double limit) {
  const auto edge = [&](double at) {
    return whole > 0 ? std::clamp(static_cast<int>(std::lround(at / whole * cells)), 0, cells) : 0;
  };
  const int last_fitting = limit > 0 ? edge(limit) : cells;
  const auto fill = [&](const BarKind& kind, int from, int to) {
    std::string inside, beyond;
    for (int cell = from; cell < to; ++cell) {
      (cell < last_fitting ? inside : beyond) += cell < last_fitting ? kind.glyph : "!";
    }
    return paint(kind.sgr, inside) + paint("1;31", beyond);
  };
  std::string out;
  double sum = 0;
  int from = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    sum += std::max(0.0, parts[i]);
    const int to = edge(sum);
    out += fill(kinds[i], from, to);
    from = std::max(from, to);
  }
  out += paint(free.sgr, [&] {
    std::string rest;
    for (int cell = from; cell < std::max(from, last_fitting); ++cell) {
      rest += free.glyph;
    }
    return rest;
  }());
  out.append(static_cast<std::size_t>(std::max(0, cells - std::max(from, last_fitting))), ' ');
  return out;
}

std::string legend(const std::vector<BarKind>& kinds, const std::vector<std::string>& values,
                   int width, const Paint& paint) {
  constexpr std::string_view kIndent = "  ";
  constexpr int kGap = 3;
  std::string out(kIndent);
  int used = static_cast<int>(kIndent.size());
  bool first = true;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (values[i].empty()) {
      continue;
    }
    const std::string words = std::string(" ") + std::string(kinds[i].name) + " " + values[i];
    const int size = 1 + columns(words);
    if (!first && used + kGap + size > width) {
      out += '\n';
      out += kIndent;
      used = static_cast<int>(kIndent.size());
      first = true;
    }
    if (!first) {
      out.append(kGap, ' ');
      used += kGap;
    }
    out += paint(kinds[i].sgr, kinds[i].glyph) + paint("2", words);
    used += size;
    first = false;
  }
  return first ? std::string() : out + '\n';
}

}  // namespace stepcast::report
