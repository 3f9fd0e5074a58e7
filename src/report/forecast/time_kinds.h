// The kinds of time of a compute stream, in the order in which tables, bars and legends show them.
#pragma once

#include <array>

#include "../text/bar.h"
#include "stepcast/program/program.h"

namespace stepcast::report {

struct TimeKind {
  enum class Sum { compute, exposed, bubble, rest };
  BarKind kind;
  program::Category category;
  Sum sum;
};

constexpr TimeKind time_kind(program::Category category, std::string_view glyph,
                             std::string_view sgr, TimeKind::Sum sum) {
  return {{to_string(category), glyph, sgr}, category, sum};
}

inline constexpr std::array kTimeKinds = {
    time_kind(program::Category::compute, "█", "38;5;33", TimeKind::Sum::compute),
    time_kind(program::Category::recompute, "▓", "38;5;75", TimeKind::Sum::compute),
    time_kind(program::Category::slowdown, "▒", "38;5;111", TimeKind::Sum::compute),
    time_kind(program::Category::tensor, "T", "38;5;208", TimeKind::Sum::exposed),
    time_kind(program::Category::context, "C", "38;5;214", TimeKind::Sum::exposed),
    time_kind(program::Category::expert, "E", "38;5;178", TimeKind::Sum::exposed),
    time_kind(program::Category::pipeline, "P", "38;5;170", TimeKind::Sum::exposed),
    time_kind(program::Category::data, "D", "38;5;160", TimeKind::Sum::exposed),
    time_kind(program::Category::offload, "F", "38;5;130", TimeKind::Sum::exposed),
    time_kind(program::Category::other, "o", "38;5;138", TimeKind::Sum::exposed),
    time_kind(program::Category::optimizer, "U", "38;5;35", TimeKind::Sum::rest),
    time_kind(program::Category::host, "H", "38;5;101", TimeKind::Sum::rest),
    time_kind(program::Category::stall, "s", "38;5;245", TimeKind::Sum::rest),
    time_kind(program::Category::bubble, "·", "38;5;240", TimeKind::Sum::bubble),
};
static_assert(kTimeKinds.size() == program::kCategories);

// Smaller shares would print as 0.0 %; they have no column and no entry in a legend.
inline constexpr double kMinShare = 0.0005;

}  // namespace stepcast::report
