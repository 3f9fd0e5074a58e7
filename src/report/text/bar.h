// A stacked bar of one-column glyphs. The glyphs differ, so a bar is legible without colour.
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

// A bar of exactly `cells` columns for `whole`; columns without a part are `free`. Edges are
// rounded and not lengths, so that equal sums of parts end in the same column of every bar. Columns
// beyond `limit` (if positive) are marked as not fitting.
std::string stacked_bar(const std::vector<BarKind>& kinds, const std::vector<double>& parts,
                        double whole, int cells, const BarKind& free, const Paint& paint,
                        double limit = 0);

// "█ compute 71.2 %   T tensor 3.4 %", wrapped; kinds whose share is zero are left out.
std::string legend(const std::vector<BarKind>& kinds, const std::vector<std::string>& values,
                   int width, const Paint& paint);

}  // namespace stepcast::report
