// What a stage's time goes into, as bars, tables and pages show it.
#pragma once

#include <array>

#include "bar.h"
#include "stepcast/result/report.h"

namespace stepcast::report {

struct TimeKind {
  Kind kind;  // its name is the category's, JSON's key and the colour of style.css
  Time result::StageBreakdown::*part;
  enum class Sum { compute, exposed, bubble, rest } sum;
};

inline constexpr std::array<TimeKind, 14> kTimeKinds = [] {
  using B = result::StageBreakdown;
  using enum TimeKind::Sum;
  return std::array<TimeKind, 14>{{
      {{"compute", "█", "38;5;33"}, &B::compute, compute},
      {{"recompute", "▓", "38;5;75"}, &B::recompute, compute},
      {{"slowdown", "▒", "38;5;111"}, &B::slowdown, compute},
      {{"tensor", "T", "38;5;208"}, &B::tensor, exposed},
      {{"context", "C", "38;5;214"}, &B::context, exposed},
      {{"expert", "E", "38;5;178"}, &B::expert, exposed},
      {{"pipeline", "P", "38;5;170"}, &B::pipeline, exposed},
      {{"data", "D", "38;5;160"}, &B::data, exposed},
      {{"offload", "F", "38;5;130"}, &B::offload, exposed},
      {{"other", "o", "38;5;138"}, &B::other, exposed},
      {{"optimizer", "U", "38;5;35"}, &B::optimizer, rest},
      {{"host", "H", "38;5;101"}, &B::host, rest},
      {{"stall", "s", "38;5;245"}, &B::stall, rest},
      {{"bubble", "·", "38;5;240"}, &B::bubble, bubble},
  }};
}();

// Shares below it would print as 0.0 %: they have no column and no entry in a legend.
inline constexpr double kLeastShare = 0.0005;

}  // namespace stepcast::report
