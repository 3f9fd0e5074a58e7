// Why a forecast is what it is: for people and for machines.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "json_writer.h"
#include "stepcast/report/report.h"
#include "text_table.h"

namespace stepcast::report {
namespace {

using result::DoubtShare;
using result::Explanation;
using Align = TextTable::Align;

constexpr std::size_t kMostCurves = 10, kMostDoubts = 10;
constexpr double kEasy = 1.645, kHard = 3;  // deviations: inside 90 %, and beyond 99.7 %

std::string heading(const Paint& paint, std::string_view title, std::string_view remark) {
  return "\n" + paint("1", title) + "  " + paint("2", remark) + "\n";
}

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

std::string path(const Explanation& e, const Paint& paint, int width) {
  TextTable categories({{"category", Align::left}, {"seconds"}, {"share"}});
  for (const result::PathShare& p : e.critical_path) {
    categories.row({p.category, duration(p.seconds), percent(share(p.seconds, e.step_time.value))});
  }
  TextTable curves({{"curve", Align::left}, {"seconds"}, {"share"}, {"file", Align::left}});
  for (std::size_t i = 0; i < std::min(e.curves.size(), kMostCurves); ++i) {
    const result::CurveShare& c = e.curves[i];
    curves.row({shorten(c.name, width / 2), duration(c.seconds),
                percent(share(c.seconds, e.step_time.value)), c.file});
  }
  return heading(paint, "Where the time goes", "the critical path, by what its tasks do") +
         categories.text(paint, width) +
         heading(paint, "By curve",
                 "seconds that grow with it; slow-downs count under the kernel's too") +
         curves.text(paint, width);
}

std::string doubts(const Explanation& e, const Paint& paint, int width) {
  if (e.doubts.empty()) {
    return heading(paint, "What is not known", "nothing that a curve or default leaves open");
  }
  TextTable table(
      {{"variance"}, {"adds"}, {"of"}, {"+-"}, {"doubt", Align::left}, {"source", Align::left}});
  for (std::size_t i = 0; i < std::min(e.doubts.size(), kMostDoubts); ++i) {
    const result::Doubt& d = e.doubts[i].doubt;
    table.row({percent(e.doubts[i].variance), duration(std::abs(d.added())), duration(d.seconds),
               percent(d.deviation), shorten(d.name, width / 2), d.source});
  }
  return heading(paint, "What is not known",
                 "share of the interval; what one deviation adds to the step; seconds under it; "
                 "its deviation") +
         table.text(paint, width);
}

std::string halving(const Explanation& e, const Paint& paint, int width) {
  if (e.halve.empty()) {
    return "";
  }
  TextTable table({{"interval left"}, {"measure", Align::left}, {"how", Align::left}});
  for (const result::ToMeasure& m : e.halve) {
    table.row({percent(m.remaining), shorten(m.what, width / 2), m.how});
  }
  return heading(paint, "To halve the interval",
                 "in this order; what is left of its width once this and all before it are known") +
         table.text(paint, width);
}

// What a factor would have to be: "1.31 times", "not even at nothing".
std::string factor(const DoubtShare& share, double deviations) {
  const double f = 1 + deviations * share.doubt.deviation;
  return f > 0 ? fmt::format("x {:.3g}", f) : "below 0";
}

std::string verdict(const Explanation& e) {
  const double z = std::abs(e.measured->deviations);
  const std::string way = e.measured->deviations > 0 ? "slower" : "faster";
  if (e.measured->inside) {
    return fmt::format("  Inside the 90 % interval: nothing is hard to reconcile with it.\n");
  }
  std::string text =
      fmt::format("  Outside the 90 % interval: {} than forecast by {:.1f} deviations.\n", way, z);
  if (e.doubts.empty()) {
    return text +
           "  No doubt is known that could explain it: look for what the job does not say.\n";
  }
  // The doubt that needs least by itself is the largest.
  const DoubtShare& first = e.doubts.front();
  text += std::abs(first.alone) <= kHard
              ? fmt::format("  '{}' alone explains it at {:.1f} deviations.\n", first.doubt.name,
                            std::abs(first.alone))
              : fmt::format(
                    "  No single doubt explains it within {:g} deviations; '{}' comes nearest, at "
                    "{:.1f}.\n",
                    kHard, first.doubt.name, std::abs(first.alone));
  for (const DoubtShare& s : e.doubts) {
    if (std::abs(s.together) > kEasy) {
      text += fmt::format(
          "  Hard to reconcile: '{}' has to be off by {:.1f} deviations even when all give way.\n",
          s.doubt.name, std::abs(s.together));
    }
  }
  return text + (z > kHard ? "  More likely the job differs from what was run, or the forecast "
                             "lacks something: compare the breakdown with a profile.\n"
                           : "");
}

std::string measured(const Explanation& e, const Paint& paint, int width) {
  if (!e.measured) {
    return "";
  }
  const double gap = e.measured->seconds - e.step_time.value;
  std::string text =
      heading(paint, fmt::format("Measured {}", duration(e.measured->seconds)),
              fmt::format("{:+.1f} % of the forecast", 100 * share(gap, e.step_time.value)));
  text += verdict(e);
  TextTable table(
      {{"alone"}, {"needs"}, {"together"}, {"needs"}, {"", Align::left}, {"doubt", Align::left}});
  for (std::size_t i = 0; i < std::min(e.doubts.size(), kMostDoubts); ++i) {
    const DoubtShare& s = e.doubts[i];
    const double alone = std::abs(s.alone);
    table.row({factor(s, s.alone), fmt::format("{:.1f} dev.", alone), factor(s, s.together),
               fmt::format("{:.1f} dev.", std::abs(s.together)),
               alone <= kEasy   ? "possible"
               : alone <= kHard ? "unlikely"
                                : "hard",
               s.doubt.name});
  }
  return text + (e.doubts.empty() ? "" : table.text(paint, width));
}

void write_path(JsonWriter& out, const Explanation& e) {
  out.key("critical_path").array();
  for (const result::PathShare& p : e.critical_path) {
    out.object(true).key("category").text(p.category).key("seconds").fixed_seconds(p.seconds);
    out.close();
  }
  out.close().key("curves").array();
  for (const result::CurveShare& c : e.curves) {
    out.object(true).key("name").text(c.name).key("file").text(c.file);
    out.key("seconds").fixed_seconds(c.seconds).close();
  }
  out.close();
}

void write_doubts(JsonWriter& out, const Explanation& e) {
  out.key("doubts").array();
  for (const DoubtShare& s : e.doubts) {
    out.object(true);
    out.key("name").text(s.doubt.name).key("kind").text(to_string(s.doubt.kind));
    out.key("source").text(s.doubt.source);
    out.key("seconds").number(s.doubt.seconds).key("deviation").number(s.doubt.deviation);
    out.key("added").number(s.doubt.added()).key("variance").number(s.variance);
    if (e.measured) {
      out.key("alone").number(s.alone).key("together").number(s.together);
    }
    out.close();
  }
  out.close().key("halve").array();
  for (const result::ToMeasure& m : e.halve) {
    out.object(true).key("what").text(m.what).key("how").text(m.how);
    out.key("remaining").number(m.remaining).close();
  }
  out.close();
}

}  // namespace

std::string terminal(const Explanation& e, bool colour, int width) {
  const Paint paint{colour};
  std::string text = paint("1", e.title) + "\n";
  text += fmt::format("  Step time {}, 90 % interval {} to {}\n", duration(e.step_time.value),
                      duration(e.step_time.low), duration(e.step_time.high));
  text += path(e, paint, width) + doubts(e, paint, width) + halving(e, paint, width) +
          measured(e, paint, width);
  for (const std::string& note : e.notes) {
    text += "\n" + wrap("note: " + note, width, 6) + "\n";
  }
  return text;
}

std::string json(const Explanation& e) {
  JsonWriter out;
  out.object();
  out.key("schema").integer(1);
  if (!e.job_json.empty()) {
    out.key("job").document(e.job_json);
  }
  out.key("step_time").object(true);
  out.key("value").number(e.step_time.value).key("low").number(e.step_time.low);
  out.key("high").number(e.step_time.high).close();
  write_path(out, e);
  write_doubts(out, e);
  out.key("measured");
  if (e.measured) {
    out.object(true).key("seconds").number(e.measured->seconds);
    out.key("deviations").number(e.measured->deviations);
    out.key("inside").boolean(e.measured->inside).close();
  } else {
    out.null();
  }
  out.key("notes").array();
  for (const std::string& note : e.notes) {
    out.text(note);
  }
  out.close();
  out.close();
  return std::move(out).finish();
}

}  // namespace stepcast::report
