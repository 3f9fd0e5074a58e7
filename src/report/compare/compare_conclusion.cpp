#include "compare_conclusion.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "../text/format.h"
#include "../words/sentences.h"

namespace stepcast::report {

std::string conclusion(const result::Comparison& c) {
  std::vector<const result::ComparedSystem*> fit;
  std::size_t too_large = 0;
  std::size_t refused = 0;
  for (const result::ComparedSystem& s : c.systems) {
    if (s.ran && s.fits) {
      fit.push_back(&s);
    }
    too_large += s.ran && !s.fits ? 1 : 0;
    refused += s.ran ? 0 : 1;
  }
  std::string out;
  if (fit.empty()) {
    out = fmt::format("The job fits under none of the {}", counted(c.systems.size(), "system"));
  } else {
    out = fmt::format(
        "{} is the fastest of {}: {} a step at {} MFU", fit.front()->name,
        fit.size() == 1 ? "1 system that fits" : fmt::format("{} systems that fit", fit.size()),
        duration(fit.front()->step_time.value), percent(fit.front()->mfu.value));
    if (fit.size() > 1) {
      out += fmt::format("; {} takes {}", fit[1]->name,
                         beside(fit[1]->step_time.value, fit[0]->step_time.value, "", "that"));
    }
  }
  if (too_large + refused > 0) {
    out += fmt::format("; {} too large, {} cannot run it", too_large, refused);
  }
  return out + ".";
}

std::string conclusion(const Diff& d) {
  const auto figure = [&](const char* name) {
    return std::find_if(d.figures.begin(), d.figures.end(),
                        [&](const Diff::Figure& f) { return f.name == name; });
  };
  const auto step = figure("step time");
  std::string out;
  if (step != d.figures.end()) {
    out = fmt::format("{} takes {} a step, {}", d.b, duration(step->b),
                      beside(step->b, step->a, "", d.a));
  } else {
    out = fmt::format("{} against {}", d.b, d.a);
  }
  return out + (d.keys.empty()
                    ? "; the jobs are the same."
                    : fmt::format("; {} of the job differ{}.", counted(d.keys.size(), "key"),
                                  d.keys.size() == 1 ? "s" : ""));
}

}  // namespace stepcast::report
