#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "../page/page_plot.h"
#include "../text/format.h"
#include "timeline_data.h"

namespace stepcast::report {
namespace {

using program::Slice;
using program::Task;

// Runs of each colour in a row that is divided into cells. A cell has the colour that takes most of
// it, or none where little of it is busy.
class Cells {
 public:
  explicit Cells(double wide) : wide_(wide) {}

  void add(const std::string& colour, double from, double to) {
    while (from < to) {
      const double at = std::floor(from / wide_ + 1e-9);
      if (at != cell_) {
        close();
        cell_ = at;
      }
      const double until = std::min(to, (at + 1) * wide_);
      inside_[colour] += until - from;
      from = until > from ? until : to;
    }
  }

  const std::map<std::string, Plot::Runs>& finish() {
    close();
    return runs_;
  }

 private:
  void close() {
    const auto most =
        std::max_element(inside_.begin(), inside_.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    double sum = 0;
    for (const auto& [colour, time] : inside_) {
      sum += time;
    }
    if (most != inside_.end() && sum > wide_ / 4) {
      Plot::Runs& of = runs_[most->first];
      const double from = cell_ * wide_;
      if (!of.empty() && of.back().second >= from - wide_ / 100) {
        of.back().second = from + wide_;
      } else {
        of.emplace_back(from, from + wide_);
      }
    }
    inside_.clear();
  }

  double wide_;
  double cell_ = -1;
  std::map<std::string, double> inside_;  // time of each colour in the cell
  std::map<std::string, Plot::Runs> runs_;
};

}  // namespace

std::string timeline_still(const result::Report::Trace& trace, const TimelineRows& rows,
                           const std::string& description) {
  constexpr int kRow = 16;          // pixels
  constexpr double kColumns = 800;  // runs shorter than one of these are joined
  std::vector<const TimelineRow*> compute;
  for (const TimelineRow& row : rows.rows) {
    if (row.stream == 0) {
      compute.push_back(&row);
    }
  }
  const double step = to_seconds(trace.timeline.period);
  const auto count = static_cast<double>(compute.size());
  if (compute.empty() || step <= 0) {
    return "";
  }
  PlotAxis y{0, count, false, {}, ""};
  for (std::size_t i = 0; i < compute.size(); ++i) {
    y.labels.emplace_back(count - static_cast<double>(i) - 0.5,
                          fmt::format("stage {}", compute[i]->stage));
  }
  const TimeUnit unit = unit_for(step);
  const double per = unit.per_second * 1e-12;  // of a picosecond
  PlotAxis x{0, step * unit.per_second, false, {}, std::string(unit.name)};
  Plot plot(x, y, kRow * static_cast<int>(compute.size()));
  for (std::size_t i = 0; i < compute.size(); ++i) {
    const double top = count - static_cast<double>(i) - 0.06, bottom = top - 0.88;
    plot.box(0, bottom, x.to, top, "k-bubble");
    const program::Program& p = program_of(trace, compute[i]->rank);
    Cells cells(x.to / kColumns);
    for (const std::uint32_t s : compute[i]->slices) {
      const Slice& slice = trace.timeline.slices[s];
      const Task& task = p.tasks[slice.task];
      cells.add(colour_of(task, pass_of(task, p.labels[task.label])),
                std::max(0.0, static_cast<double>(slice.begin.count()) * per),
                std::min(x.to, static_cast<double>(slice.end.count()) * per));
    }
    for (const auto& [colour, list] : cells.finish()) {
      plot.runs(list, bottom, top, "k-" + colour);
    }
  }
  return plot.finish(description);
}

}  // namespace stepcast::report
