// The explanation of a forecast, as text and JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "../record/tables.h"
#include "../text/format.h"
#include "../words/sentences.h"
#include "profile_conclusion.h"
#include "profile_fields.h"
#include "stepcast/report/report.h"

namespace stepcast::report {
namespace {

using result::DoubtShare;
using result::Explanation;

constexpr std::size_t kMaxShown = 10;       // curves, and doubts, in a table
constexpr double kEasy = 1.645, kHard = 3;  // deviations: inside 90 %, and beyond 99.7 %

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

template <class T>
std::vector<T> first_ones(const std::vector<T>& all) {
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), kMaxShown))};
}

// Records of one explanation, with shares of its step; long names are cut for a table.
struct ExplanationFields {
  const Explanation& e;
  int name_width = 1000;
  std::string cut(const std::string& name) const { return shorten(name, name_width); }

  Record operator()(const result::PathShare& p) const {
    return {{"category", p.category, "category"},
            {"seconds", Seconds{p.seconds}, "seconds", Show::duration},
            {"", share(p.seconds, e.step_time.value), "share", Show::percent}};
  }
  Record operator()(const result::CurveShare& c) const {
    return {{"name", c.name},
            {"", cut(c.name), "curve"},
            {"", c.seconds, "seconds", Show::duration},
            {"", share(c.seconds, e.step_time.value), "share", Show::percent},
            {"file", c.file, "file"},
            {"seconds", Seconds{c.seconds}}};
  }
  Record operator()(const DoubtShare& s) const {
    const result::Doubt& d = s.doubt;
    Record out = {{"name", d.name},
                  {"kind", to_string(d.kind)},
                  {"source", d.source},
                  {"seconds", d.seconds},
                  {"deviation", d.deviation},
                  {"added", d.added()},
                  {"variance", s.variance, "variance", Show::percent},
                  {"", std::abs(d.added()), "adds", Show::duration},
                  {"", d.seconds, "of", Show::duration},
                  {"", d.deviation, "+-", Show::percent},
                  {"", cut(d.name), "factor"},
                  {"", d.source, "source"}};
    if (e.measured) {
      append(out, {{"alone", s.alone}, {"together", s.together}});
    }
    return out;
  }
  Record operator()(const result::ToMeasure& m) const {
    return {{"what", m.what}, {"how", m.how}, {"remaining", m.remaining}};
  }
};

std::string path(const Explanation& e, const Paint& paint, int width) {
  const ExplanationFields fields{e, width / 2};
  return "\n" +
         heading(paint, "Where the time goes", "the critical path, by category of its tasks") +
         text_table(e.critical_path, fields).text(paint, width) + "\n" +
         heading(paint, "By curve",
                 "seconds that grow with the curve; time under a slow-down curve also counts under "
                 "the kernel's") +
         text_table(first_ones(e.curves), fields).text(paint, width);
}

std::string doubts(const Explanation& e, const Paint& paint, int width) {
  if (e.doubts.empty()) {
    return "\n" + heading(paint, "Sources of uncertainty",
                          "no curve and no default of this forecast is uncertain");
  }
  const ExplanationFields fields{e, width / 2};
  return "\n" +
         heading(paint, "Sources of uncertainty",
                 "share of the variance; seconds that one deviation adds to the step; seconds of "
                 "the step that depend on it; its deviation") +
         text_table(first_ones(e.doubts), fields).text(paint, width);
}

std::string halving(const Explanation& e, const Paint& paint, int width) {
  if (e.halve.empty()) {
    return "";
  }
  std::string out =
      "\n" +
      heading(paint, "To halve the interval",
              "in this order; share of the interval's width that is left when this and all "
              "before it are known") +
      "  interval left  measure\n";
  constexpr int kIndent = 17;  // of what is to be measured
  for (const result::ToMeasure& m : e.halve) {
    out += "  " + pad_left(percent(m.remaining), kIndent - 4) + "  " +
           wrap(fmt::format("{}: {}", m.what, m.how), width, kIndent) + "\n";
  }
  return out;
}

// The factor that would explain the gap: "x 1.31"; "below 0" where no factor does.
std::string factor(const DoubtShare& share, double deviations) {
  const double f = 1 + deviations * share.doubt.deviation;
  return f > 0 ? fmt::format("x {:.3g}", f) : "below 0";
}

std::string verdict(const Explanation& e) {
  const double z = std::abs(e.measured->deviations);
  const std::string way = e.measured->deviations > 0 ? "slower" : "faster";
  if (e.measured->inside) {
    return fmt::format(
        "  The measured step is inside the 90 % interval: it agrees with the forecast.\n");
  }
  std::string text = fmt::format(
      "  The measured step is outside the 90 % interval: {:.1f} deviations {} than the forecast.\n",
      z, way);
  if (e.doubts.empty()) {
    return text + "  No known uncertainty can explain it: check what the job does not state.\n";
  }
  // The largest doubt needs the fewest deviations by itself.
  const DoubtShare& first = e.doubts.front();
  text += std::abs(first.alone) <= kHard
              ? fmt::format("  '{}' alone explains it at {:.1f} deviations.\n", first.doubt.name,
                            std::abs(first.alone))
              : fmt::format(
                    "  No single factor explains it within {:g} deviations; '{}' comes nearest, at "
                    "{:.1f}.\n",
                    kHard, first.doubt.name, std::abs(first.alone));
  for (const DoubtShare& s : e.doubts) {
    if (std::abs(s.together) > kEasy) {
      text += fmt::format(
          "  Hard to explain: '{}' would be off by {:.1f} deviations even if all factors were off "
          "together.\n",
          s.doubt.name, std::abs(s.together));
    }
  }
  return text + (z > kHard ? "  More likely the job differs from the run, or the simulation leaves "
                             "something out: compare the breakdown with a profile.\n"
                           : "");
}

// The deviations that would explain the gap, of each doubt by itself and of all together.
Record needed_fields(const DoubtShare& s) {
  const double sigma = std::abs(s.alone);
  const char* chance = sigma <= kEasy ? "plausible" : sigma <= kHard ? "unlikely" : "implausible";
  const auto words = [&](double deviations) {
    return fmt::format("{} ({:.1f} sigma)", factor(s, deviations), std::abs(deviations));
  };
  return {{"", words(s.alone) + ", " + chance, "if this alone explains it"},
          {"", words(s.together), "if all together"},
          {"", s.doubt.name, "factor"}};
}

std::string measured(const Explanation& e, const Paint& paint, int width) {
  if (!e.measured) {
    return "";
  }
  const double gap = e.measured->seconds - e.step_time.value;
  return "\n" +
         heading(paint, fmt::format("Measured {}", duration(e.measured->seconds)),
                 signed_percent(share(gap, e.step_time.value)) + " of the forecast") +
         verdict(e) +
         (e.doubts.empty() ? ""
                           : text_table(first_ones(e.doubts), needed_fields).text(paint, width));
}

Value measured_value(const Explanation& e) {
  return e.measured ? object({{"seconds", e.measured->seconds},
                              {"deviations", e.measured->deviations},
                              {"inside", e.measured->inside}})
                    : Value();
}

}  // namespace

std::string terminal(const Explanation& e, bool colour, int width) {
  const Paint paint{colour};
  std::string text = opening(paint, conclusion(e), e.title, width);
  text += fmt::format("  Step time {}, 90 % interval {} to {}\n", duration(e.step_time.value),
                      duration(e.step_time.low), duration(e.step_time.high));
  text += path(e, paint, width) + doubts(e, paint, width) + halving(e, paint, width) +
          measured(e, paint, width);
  for (const result::TraceExplanation& profile : e.profiles) {
    text += trace_explanation_text(profile, paint, width);
  }
  for (const std::string& note : e.notes) {
    text += "\n" + wrap("note: " + note, width, 6) + "\n";
  }
  return text;
}

std::string json(const Explanation& e) {
  const ExplanationFields fields{e};
  Record out = {{"schema", 1}, {"conclusion", conclusion(e)}};
  if (!e.job_json.empty()) {
    out.push_back({"job", Document{e.job_json}});
  }
  append(out, {{"step_time", e.step_time},
               {"critical_path", rows(e.critical_path, fields)},
               {"curves", rows(e.curves, fields)},
               {"doubts", rows(e.doubts, fields)},
               {"halve", rows(e.halve, fields)},
               {"measured", measured_value(e)},
               {"profiles", list(e.profiles, trace_explanation_value, false)},
               {"notes", lines(e.notes)}});
  return json_of(std::move(out));
}

}  // namespace stepcast::report
