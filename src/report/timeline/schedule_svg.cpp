// A played schedule as a picture: one row per rank, one box per pass with its micro-batch's number,
// later model chunks paler.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "../svg/plot.h"
#include "../text/format.h"
#include "stepcast/report/report.h"

namespace stepcast::report {
namespace {

using schedule::Pass;
using PlayedTask = schedule::Played::Task;

struct Look {
  Pass pass;
  std::string_view name;
  std::string_view fill;
};
constexpr std::array kLooks = {
    Look{Pass::forward, "forward", "#4e79a7"},
    Look{Pass::backward, "backward", "#f28e2b"},
    Look{Pass::input_grad, "input gradient", "#e15759"},
    Look{Pass::weight_grad, "weight gradient", "#59a14f"},
    Look{Pass::vocabulary, "vocabulary (S)", "#b07aa1"},
    Look{Pass::vocabulary_grad, "its gradient (T)", "#9c755f"},
};

// Pixels.
constexpr double kScheduleLeft = 72, kScheduleTop = 36, kSchedulePlot = 1200, kScheduleRight = 96,
                 kScheduleRow = 26, kScheduleBox = 22;
constexpr double kScheduleDigit = 6.5;  // a digit of the boxes' font

const Look& look_of(Pass pass) {
  return *std::find_if(kLooks.begin(), kLooks.end(), [&](const Look& l) { return l.pass == pass; });
}

// The time axis below the rows.
std::string time_axis(double makespan, double scale, double y) {
  std::string out;
  for (const double tick : ticks(makespan)) {
    const double x = kScheduleLeft + tick * scale;
    out += fmt::format("<path stroke=\"#888888\" d=\"M{:.1f} {:.1f}v5\"/>", x, y) +
           svg_text(x, y + 17, fmt::format("{:g}", tick), "middle") + "\n";
  }
  return out;
}

// The row of a rank before its boxes, with the share of time in which it is idle.
std::string row_of(const schedule::Played& played, std::size_t rank) {
  const double y = kScheduleTop + kScheduleRow * static_cast<double>(rank);
  const double share = played.makespan > 0 ? played.idle[rank] / played.makespan : 0;
  return svg_text(whole(kScheduleLeft - 8), y + 16, fmt::format("rank {}", rank), "end") +
         fmt::format(
             "<rect x=\"{:.0f}\" y=\"{:.1f}\" width=\"{:.0f}\" height=\"{:.0f}\" "
             "fill=\"#eeeeee\"/>",
             kScheduleLeft, y, kSchedulePlot, kScheduleBox) +
         svg_text(whole(kScheduleLeft + kSchedulePlot + 8), y + 16, percent(share)) + "\n";
}

// Whether two passes run at the same time; they share a row, the first above, the second below.
bool beside_each_other(const PlayedTask& a, const PlayedTask& b) {
  return a.rank == b.rank && a.start == b.start && a.end == b.end && a.end > a.start;
}

// The box of a pass. `stages`: those of its rank.
std::string box_of(const schedule::Played& played, std::size_t i, const std::set<int>& stages,
                   double scale) {
  const PlayedTask& task = played.tasks[i];
  const bool lower = i > 0 && beside_each_other(played.tasks[i - 1], task);
  const bool upper =
      !lower && i + 1 < played.tasks.size() && beside_each_other(task, played.tasks[i + 1]);
  const auto chunk = std::distance(stages.begin(), stages.find(task.stage));
  // From opaque for the first chunk down to 45 % for the last.
  const double opacity = stages.size() < 2 ? 1
                                           : 1 - 0.55 * static_cast<double>(chunk) /
                                                     static_cast<double>(stages.size() - 1);
  const Look& look = look_of(task.pass);
  const double x = kScheduleLeft + task.start * scale;
  const double tall = upper || lower ? kScheduleBox / 2 : kScheduleBox;
  const double y = kScheduleTop + kScheduleRow * task.rank + (lower ? tall : 0);
  const double box = std::max(0.0, (task.end - task.start) * scale);
  std::string out = fmt::format(
      "<g><title>{} of micro-batch {} on stage {}: {:.6g} to {:.6g}</title>"
      "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.0f}\" fill=\"{}\" "
      "fill-opacity=\"{:.2f}\" stroke=\"#ffffff\" stroke-width=\"0.5\"/>",
      look.name, task.micro_batch, task.stage, task.start, task.end, x, y, box, tall, look.fill,
      opacity);
  const std::string number = fmt::to_string(task.micro_batch);
  if (box > kScheduleDigit * static_cast<double>(number.size()) + 2) {
    out += fmt::format(
        "<text x=\"{:.2f}\" y=\"{:.1f}\" text-anchor=\"middle\" font-size=\"{}\">{}</text>",
        x + box / 2, y + tall / 2 + 4, upper || lower ? 9 : 11, number);
  }
  return out + "</g>\n";
}

}  // namespace

std::string svg(const schedule::Played& played, const std::string& name) {
  const std::size_t ranks = played.idle.size();
  const double scale = played.makespan > 0 ? kSchedulePlot / played.makespan : 0;
  std::vector<std::set<int>> stages(ranks);
  std::set<Pass> passes;
  for (const PlayedTask& task : played.tasks) {
    stages[static_cast<std::size_t>(task.rank)].insert(task.stage);
    passes.insert(task.pass);
  }
  const double height = kScheduleTop + kScheduleRow * static_cast<double>(ranks) + 66;
  const double width = kScheduleLeft + kSchedulePlot + kScheduleRight;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
      "<text x=\"{2:.0f}\" y=\"20\" font-weight=\"bold\">{5}total time {3:.6g}</text>\n"
      "<text x=\"{4:.0f}\" y=\"20\">idle</text>\n",
      width, height, kScheduleLeft, played.makespan, kScheduleLeft + kSchedulePlot + 8,
      name.empty() ? "" : xml_text(name) + ": ");
  for (std::size_t r = 0; r < ranks; ++r) {
    out += row_of(played, r);
  }
  for (std::size_t i = 0; i < played.tasks.size(); ++i) {
    out += box_of(played, i, stages[static_cast<std::size_t>(played.tasks[i].rank)], scale);
  }
  out +=
      time_axis(played.makespan, scale, kScheduleTop + kScheduleRow * static_cast<double>(ranks));
  double x = kScheduleLeft;
  const double y = height - 24;
  for (const Look& look : kLooks) {
    if (passes.contains(look.pass)) {
      out += svg_key(whole(x), whole(y), look.fill, look.name, 18) + "\n";
      x += 140;
    }
  }
  out += "</svg>\n";
  return out;
}

}  // namespace stepcast::report
