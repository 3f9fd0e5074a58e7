// A stacked bar of one-column glyphs. Glyphs differ, so a bar reads without colour too.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "format.h"

namespace stepcast::report {

struct BarKind {
  std::string_view name;
  std::string_view glyph;
  std::string_view sgr;  // colour when painted
};

// Exactly `cells` columns for `whole`; the rest is `free`. Edges are rounded, not lengths, so that
// equal parts of different bars end in the same column. Cells beyond `limit` (if positive) show
// what does not fit.
std::string stacked_bar(const std::vector<BarKind>& kinds, const std::vector<double>& parts,
                        double whole, int cells, const BarKind& free, const Paint& paint,
                        double limit = 0);

// "█ compute 71.2 %   T tensor 3.4 %", wrapped; kinds whose share is zero are left out.
std::string legend(const std::vector<BarKind>& kinds, const std::vector<std::string>& values,
                   int width, const Paint& paint);

}  // namespace stepcast::report
