// A search as a picture: what each strategy takes against the memory that it needs, and the front
// of those that no other beats in both.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "../svg/plot.h"
#include "../text/format.h"
#include "search_fields.h"
#include "stepcast/report/report.h"

namespace stepcast::report {
namespace {

using result::Search;
using result::Strategy;

// Pixels.
constexpr double kFoundLeft = 74, kFoundTop = 92, kFoundWidth = 780, kFoundHeight = 360,
                 kFoundBelow = 56, kFoundApart = 16;
constexpr const char* kFoundDot = "#0072b2";
constexpr const char* kFoundBest = "#d55e00";

// "tp 4, pp 2": what is not 1, none or off.
std::string found_label(const Strategy& one) {
  std::string out;
  for (const std::string& text : one.overrides) {
    const std::size_t equals = text.find('=');
    const std::string value = text.substr(equals + 1);
    if (value != "1" && value != "none" && value != "false") {
      out +=
          fmt::format("{}{} {}", out.empty() ? "" : ", ", brief_key(text.substr(0, equals)), value);
    }
  }
  return out;
}

std::string found_dot(const Search& s, const Strategy& one, const PlotFrame& f,
                      const char* colour) {
  return fmt::format(
      "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4.5\" fill=\"{}\">{}</circle>\n",
      f.px(one.peak.value / kGibibyte), f.py(one.objective * objective_of(s).scale), colour,
      svg_title(fmt::format("{}, MFU {}, {} GiB: {}", objective_text(s, one.objective),
                            percent(one.mfu), gibibytes(one.peak.value), found_label(one))));
}

// The front as steps, since a place between two of its points is not reached.
std::string found_front(const Search& s, const PlotFrame& f) {
  std::string line, labels;
  double last = -kFoundApart;
  for (const Strategy* one : front_of_shown(s)) {
    const double x = f.px(one->peak.value / kGibibyte);
    const double y = f.py(one->objective * objective_of(s).scale);
    line +=
        line.empty() ? fmt::format("M{:.1f},{:.1f}", x, y) : fmt::format("H{:.1f}V{:.1f}", x, y);
    if (std::abs(y - last) >= kFoundApart) {
      const bool right = x < f.left + 0.6 * f.width;
      labels += svg_text(x + (right ? 8 : -8), y - 8, found_label(*one), right ? "" : "end") + "\n";
      last = y;
    }
  }
  return line.empty()
             ? ""
             : fmt::format("<path class=\"ink\" fill=\"none\" d=\"{}\"/>\n", line) + labels;
}

}  // namespace

std::string svg(const Search& search) {
  const std::vector<const Strategy*> all = shown_strategies(search);
  std::vector<double> memory, objective;
  for (const Strategy* one : all) {
    memory.push_back(one->peak.value / kGibibyte);
    objective.push_back(one->objective * objective_of(search).scale);
  }
  const PlotFrame f{kFoundLeft,
                    kFoundTop,
                    kFoundWidth,
                    kFoundHeight,
                    scale_of(memory, false),
                    scale_of(objective, false)};
  std::string out = plot_head(kFoundLeft + kFoundWidth + 30, kFoundTop + kFoundHeight + kFoundBelow,
                              search.title, 26);
  if (all.empty() || !search.found) {
    return out + svg_text(whole(16), whole(kFoundTop), "no strategy fits") + "\n</svg>\n";
  }
  out += svg_text(whole(16), whole(48),
                  fmt::format("best: {}; {}", objective_text(search, search.best.objective),
                              found_label(search.best))) +
         "\n";
  out += grid(f, labelled(ticks(f.x)), labelled(ticks(f.y)), "peak memory, GiB",
              fmt::format("{}, {}", objective_of(search).name, objective_of(search).unit));
  out += found_front(search, f);
  for (const Strategy* one : all) {
    out += found_dot(search, *one, f,
                     one->overrides == search.best.overrides ? kFoundBest : kFoundDot);
  }
  return out + "</svg>\n";
}

}  // namespace stepcast::report
