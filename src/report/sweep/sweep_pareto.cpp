// Time against cost, with the front of points that no other point beats in both.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "../svg/plot.h"
#include "sweep_axes.h"
#include "sweep_plot.h"

namespace stepcast::report {
namespace {

using result::Sweep;
using result::SweepPoint;

// Pixels.
constexpr double kParetoLeft = 74, kParetoTop = 76, kParetoWidth = 780, kParetoHeight = 420,
                 kParetoBelow = 64;

// Time and cost of a step where all steps have the same number of tokens, else of 1e9 tokens.
struct Measure {
  bool step = true;
  static double tokens(const SweepPoint& p) { return p.tokens_per_second * p.step_time.value; }
  double time(const SweepPoint& p) const {
    return step ? p.step_time.value : 1e9 / p.tokens_per_second;
  }
  double cost(const SweepPoint& p) const { return time(p) * static_cast<double>(p.gpus); }
};

std::vector<const SweepPoint*> fitting(const Sweep& sweep) {
  std::vector<const SweepPoint*> out;
  for (const SweepPoint& p : sweep.points) {
    if (p.fits) {
      out.push_back(&p);
    }
  }
  return out;
}

Measure measure_of(const std::vector<const SweepPoint*>& points) {
  constexpr double kSame = 1e-6;  // relative difference up to which numbers of tokens are equal
  Measure m;
  m.step = std::all_of(points.begin(), points.end(), [&](const SweepPoint* p) {
    const double first = Measure::tokens(*points.front());
    return std::abs(Measure::tokens(*p) - first) <= kSame * first;
  });
  return m;
}

std::string front(const std::vector<const SweepPoint*>& points, const PlotFrame& f,
                  const Measure& m, const Sweep& sweep) {
  std::vector<const SweepPoint*> on;
  std::copy_if(points.begin(), points.end(), std::back_inserter(on),
               [](const SweepPoint* p) { return p->on_front; });
  std::stable_sort(on.begin(), on.end(), [&](const SweepPoint* a, const SweepPoint* b) {
    return m.cost(*a) < m.cost(*b);
  });
  std::string line, labels;
  std::vector<std::size_t> all = other_axes(sweep, {});
  constexpr double kApart = 16;  // pixels between labels
  double last = -kApart;
  for (const SweepPoint* p : on) {
    const double x = f.px(m.cost(*p)), y = f.py(m.time(*p));
    // The front is drawn as steps, since points between two of its points are not reached.
    line +=
        line.empty() ? fmt::format("{:.1f},{:.1f}", x, y) : fmt::format(" H{:.1f} V{:.1f}", x, y);
    if (std::abs(y - last) >= kApart) {
      const bool right = x < f.left + 0.6 * f.width;
      labels +=
          svg_text(x + (right ? 8 : -8), y - 7, place(*p, all, sweep), right ? "start" : "end") +
          "\n";
      last = y;
    }
  }
  return line.empty() ? ""
                      : fmt::format(
                            "<path class=\"ink\" d=\"M{}\" fill=\"none\" "
                            "stroke-width=\"1.4\"/>\n",
                            line) +
                            labels;
}

}  // namespace

std::string pareto_svg(const Sweep& sweep) {
  const auto points = fitting(sweep);
  const Measure m = measure_of(points);
  std::vector<double> times, costs;
  for (const SweepPoint* p : points) {
    times.push_back(m.time(*p));
    costs.push_back(m.cost(*p));
  }
  const PlotFrame f{
      kParetoLeft,           kParetoTop, kParetoWidth, kParetoHeight, scale_of(costs, false),
      scale_of(times, false)};
  std::vector<std::size_t> axes = other_axes(sweep, {});
  axes.erase(axes.begin(), axes.empty() ? axes.end() : axes.end() - 1);
  const auto groups = groups_of(sweep, axes);
  const double below = kParetoTop + kParetoHeight + kParetoBelow;
  std::string out = plot_head(kParetoLeft + kParetoWidth + 40, below + legend_height(groups.size()),
                              sweep.title, 28);
  const std::string of = m.step ? "a step" : "1e9 tokens";
  out += grid(f, labelled(ticks(f.x)), labelled(ticks(f.y)), "GPU-seconds of " + of,
              "seconds of " + of);
  for (const PlotGroup& group : groups) {
    for (const SweepPoint* p : group.points) {
      if (p->fits) {
        out += mark(f.px(m.cost(*p)), f.py(m.time(*p)), group.colour, *p, sweep);
      }
    }
  }
  out += front(points, f, m, sweep);
  if (points.empty()) {
    out += svg_text(whole(kParetoLeft + 20), whole(kParetoTop + 30), "no point fits") + "\n";
  }
  return out + legend(groups, 20, below, false) + "</svg>\n";
}

}  // namespace stepcast::report
