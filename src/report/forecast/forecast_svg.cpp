// A forecast as a picture: the time of each pipeline stage by what it goes into, and the headline.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "../svg/plot.h"
#include "../text/format.h"
#include "../words/fit_words.h"
#include "stepcast/report/report.h"
#include "time_kinds.h"

namespace stepcast::report {
namespace {

using result::Report;
using result::StageBreakdown;

// Pixels.
constexpr double kStepLeft = 66, kStepTop = 84, kStepWidth = 760, kStepRow = 26, kStepBar = 18,
                 kStepRight = 24, kStepBelow = 48, kStepKeys = 20;
constexpr std::size_t kStepKeysInRow = 6;
constexpr std::size_t kStepRows = 16;  // stages that are drawn

// Of the pages' light scheme, legible on a dark ground as well; in the order of kTimeKinds.
constexpr std::array kStepColours = {"#2f7ec0", "#7cc7c0", "#8a94a6", "#e69f00",  "#cc79a7",
                                     "#8460c4", "#d5662a", "#1f9e77", "#94653a",  "#9aa0a6",
                                     "#0f6b5c", "#b7a100", "#c9ced4", "#88888840"};
static_assert(kStepColours.size() == kTimeKinds.size());

std::array<double, kTimeKinds.size()> parts_of(const StageBreakdown& stage) {
  std::array<double, kTimeKinds.size()> out{};
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = to_seconds(result::part_of(stage, kTimeKinds[i].category));
  }
  return out;
}

std::string stage_bar(const StageBreakdown& stage, double y, double per_second) {
  std::string out = svg_text(whole(kStepLeft - 10), y + 14, std::to_string(stage.stage), "end");
  double x = kStepLeft;
  const auto parts = parts_of(stage);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] > 0) {
      out += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.0f}\" fill=\"{}\">{}"
          "</rect>",
          x, y, parts[i] * per_second, kStepBar, kStepColours[i],
          svg_title(fmt::format("{} {}", kTimeKinds[i].kind.name, duration(parts[i]))));
    }
    x += parts[i] * per_second;
  }
  return out + "\n";
}

std::string step_axis(double step, double per_second, double bottom) {
  const TimeUnit unit = unit_for(step);
  std::string out;
  for (const double tick : ticks(step * unit.per_second)) {
    const double x = kStepLeft + tick / unit.per_second * per_second;
    out += svg_line("grid", x, kStepTop - 6, x, bottom) +
           svg_text(x, bottom + 16, fmt::format("{:g}", tick), "middle") + "\n";
  }
  return out +
         svg_text(kStepLeft + kStepWidth / 2, bottom + 34,
                  fmt::format("time of the stage's compute stream, {}", unit.name), "middle") +
         svg_text(whole(kStepLeft - 10), whole(kStepTop - 8), "stage", "end") + "\n";
}

}  // namespace

std::string svg(const Report& report) {
  const std::size_t stages = std::min(report.breakdown.size(), kStepRows);
  std::array<double, kTimeKinds.size()> sums{};
  double longest = 0, all = 0;
  for (const StageBreakdown& stage : report.breakdown) {
    const auto parts = parts_of(stage);
    double sum = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      sums[i] += parts[i];
      sum += parts[i];
    }
    longest = std::max(longest, sum);
    all += sum;
  }
  std::vector<std::size_t> shown;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (all > 0 && sums[i] / all >= kMinShare) {
      shown.push_back(i);
    }
  }
  const double bottom = kStepTop + kStepRow * static_cast<double>(stages);
  const double keys = std::ceil(static_cast<double>(shown.size()) / kStepKeysInRow) * kStepKeys;
  std::string out = plot_head(kStepLeft + kStepWidth + kStepRight, bottom + kStepBelow + keys + 8,
                              report.title, 26);
  out +=
      svg_text(whole(16), whole(48),
               fmt::format("{} a step (90 %: {} to {}), MFU {}; peak memory {} of {} GiB, fits: {}",
                           duration(report.step_time.value), duration(report.step_time.low),
                           duration(report.step_time.high), percent(report.mfu.value),
                           gibibytes(report.peak.value),
                           gibibytes(static_cast<double>(report.capacity.count())),
                           fit_words(report.fits))) +
      "\n";
  if (longest <= 0) {
    return out + "</svg>\n";
  }
  const double per_second = kStepWidth / longest;
  out += step_axis(longest, per_second, bottom);
  for (std::size_t i = 0; i < stages; ++i) {
    out += stage_bar(report.breakdown[i * report.breakdown.size() / stages],
                     kStepTop + kStepRow * static_cast<double>(i), per_second);
  }
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const double column = (kStepWidth + kStepLeft - 16) / kStepKeysInRow;
    out +=
        svg_key(whole(16 + column * static_cast<double>(i % kStepKeysInRow)),
                whole(bottom + kStepBelow + kStepKeys * static_cast<double>(i / kStepKeysInRow)),
                kStepColours[shown[i]],
                fmt::format("{} {}", kTimeKinds[shown[i]].kind.name, percent(sums[shown[i]] / all)),
                18) +
        "\n";
  }
  return out + "</svg>\n";
}

}  // namespace stepcast::report
