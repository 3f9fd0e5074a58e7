// A strategy search as one page.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "format.h"
#include "page_parts.h"
#include "page_plot.h"
#include "stepcast/report/pages.h"
#include "stepcast/report/report.h"

namespace stepcast::report {
namespace {

using result::Search;
using result::Strategy;

constexpr double kGiB = 0x1p30;

struct Objective {
  const char* name;
  const char* unit;
  double scale;  // of the JSON's number to the unit
};
Objective objective_of(const Search& s) {
  return s.objective == "cost"     ? Objective{"Cost of a step", "GPU-s", 1}
         : s.objective == "energy" ? Objective{"Energy of a step", "MJ", 1e-6}
                                   : Objective{"Step time", "s", 1};
}
std::string objective_text(const Search& s, double value) {
  const Objective o = objective_of(s);
  return s.objective == "time" ? duration(value)
                               : fmt::format("{} {}", significant(value * o.scale, 4), o.unit);
}

std::string proof(const Search& s) {
  const std::string known =
      s.bounds_only ? "a lower bound: nothing was simulated"
      : s.gap > 0   ? fmt::format("not proven: at most {:.2f} % better exists", 100 * s.gap)
                    : "optimal within the space";
  return known + (s.stopped
                      ? "; cut short by the time limit, so that another run may answer differently"
                      : "");
}

std::vector<Tile> headline(const Search& s) {
  const Strategy& b = s.best;
  const Objective o = objective_of(s);
  std::vector<Tile> out;
  const bool time = s.objective == "time";
  out.push_back({o.name,
                 objective_text(s, b.objective),
                 time && !s.bounds_only ? between(b.step_time) : "",
                 "objective",
                 {b.objective}});
  if (!time) {
    out.push_back({"Step time",
                   duration(b.step_time.value),
                   between(b.step_time),
                   "step_time",
                   {b.step_time.value, b.step_time.low, b.step_time.high}});
  }
  if (!s.bounds_only) {
    out.push_back({"Proof",
                   s.gap > 0 ? fmt::format("gap {:.2f} %", 100 * s.gap) : "optimal",
                   s.gap > 0 ? "is the most that may be missed" : "within the space",
                   "gap",
                   {s.gap},
                   s.gap > 0 ? Tile::Tone::plain : Tile::Tone::good});
    out.push_back({"MFU", percent(b.mfu), "", "mfu", {b.mfu}});
  }
  const auto capacity = static_cast<double>(b.capacity.count());
  out.push_back({"Peak memory",
                 gibibytes(b.peak.value) + " GiB",
                 fmt::format("of {}", gibibytes(capacity)),
                 "peak",
                 {b.peak.value, b.peak.low, b.peak.high}});
  if (s.stated > 0) {
    out.push_back({"Against the job as given",
                   fmt::format("{:+.1f} %", 100 * (b.objective / s.stated - 1)),
                   objective_text(s, s.stated) + " as given",
                   "stated",
                   {s.stated},
                   b.objective < s.stated ? Tile::Tone::good : Tile::Tone::plain});
  }
  out.push_back({"Combinations",
                 thousands(s.counts.candidates),
                 s.bounds_only ? fmt::format("{} bounded", thousands(s.counts.bounded))
                               : fmt::format("{} simulated", thousands(s.counts.simulated)),
                 "candidates",
                 {static_cast<double>(s.counts.candidates)}});
  return out;
}

std::string told(const Search& s, const Strategy& one) {
  return fmt::format("{}, {} GiB, MFU {}\n{}", objective_text(s, one.objective),
                     gibibytes(one.peak.value), percent(one.mfu), fmt::join(one.overrides, "\n"));
}

// Memory across, the objective up; a colour for each number of GPUs where there are several.
std::string pareto(const Search& s) {
  std::vector<const Strategy*> all;
  std::set<double> gpus;
  double low = s.best.objective, high = low, left = s.best.peak.value, right = left;
  const auto add = [&](const Strategy& one) {
    all.push_back(&one);
    gpus.insert(one.gpus);
    low = std::min(low, one.objective);
    high = std::max(high, one.objective);
    left = std::min(left, one.peak.value);
    right = std::max(right, one.peak.value);
  };
  for (const Strategy& one : s.ranking) {
    add(one);
  }
  for (const result::FrontPoint& p : s.front) {
    add(p.best);
  }
  const Objective o = objective_of(s);
  const double margin = std::max(0.02 * high, 0.08 * (high - low)) * o.scale;
  const double room = std::max(0.02 * right, 0.06 * (right - left)) / kGiB;
  PlotAxis x{std::max(0.0, left / kGiB - room), right / kGiB + room, false, {}, "GiB"};
  PlotAxis y{std::max(0.0, low * o.scale - margin), high * o.scale + margin, false, {}, o.unit};
  constexpr int kHeight = 280;
  Plot plot(x, y, kHeight);
  // Of all that was simulated: a search cut short knows better ones than its front holds.
  std::vector<const Strategy*> by_memory = all;
  std::sort(by_memory.begin(), by_memory.end(), [](const Strategy* one, const Strategy* other) {
    return std::pair(one->peak.value, one->objective) <
           std::pair(other->peak.value, other->objective);
  });
  Plot::Points front;
  for (const Strategy* one : by_memory) {
    if (const double objective = one->objective * o.scale;
        front.empty() || objective < front.back().second) {
      front.emplace_back(one->peak.value / kGiB, objective);
    }
  }
  if (front.size() > 1) {
    plot.line(steps(front), "line l-1", "the best within so much memory");
  }
  const auto colour = [&](const Strategy& one) {
    const auto place = std::distance(gpus.begin(), gpus.find(one.gpus));
    return gpus.size() == 1 ? 0 : static_cast<int>(place) % 8;
  };
  for (const Strategy* one : all) {
    plot.dot(one->peak.value / kGiB, one->objective * o.scale,
             fmt::format("dot l-{}", colour(*one)), told(s, *one));
  }
  std::string out = plot.finish(
      fmt::format("Scatter of {} against peak memory; the table below has its figures", o.name));
  if (gpus.size() > 1) {
    std::vector<Mark> marks;
    int place = 0;
    for (const double count : gpus) {
      marks.push_back({fmt::format("s-{}", place++ % 8),
                       fmt::format("{} GPUs", thousands(std::lround(count))), ""});
    }
    out += legend(marks);
  }
  return figure(out, fmt::format("Memory per GPU across, {} up ({}). The line: the best within so "
                                 "much memory.",
                                 s.objective, o.unit));
}

std::vector<Part> time_parts(const Strategy& one) {
  const auto part = [&](const char* colour, const char* name, Time t) {
    const double share = one.step_time.value > 0 ? to_seconds(t) / one.step_time.value : 0;
    return Part{colour, to_seconds(t),
                fmt::format("{}: {}, {}", name, duration(to_seconds(t)), percent(share))};
  };
  return {part("compute", "compute", one.compute), part("recompute", "recompute", one.recompute),
          part("tensor", "exposed communication", one.exposed), part("other", "other", one.other),
          part("bubble", "bubble", one.bubble)};
}

const std::vector<Mark> kTimeMarks = {{"compute", "compute", ""},
                                      {"recompute", "recompute", ""},
                                      {"tensor", "exposed communication", ""},
                                      {"other", "other", ""},
                                      {"bubble", "bubble", ""}};

Table strategies(const Search& s, const std::vector<const Strategy*>& all, const char* id,
                 const std::string& caption) {
  std::vector<std::vector<std::string>> overrides;
  double most = 0;
  std::set<double> gpus;
  for (const Strategy* one : all) {
    overrides.push_back(one->overrides);
    most = std::max(most, one->step_time.value);
    gpus.insert(one->gpus);
  }
  const OverrideColumns columns(overrides);
  Table table;
  table.id = id;
  table.sortable = true;
  table.caption = caption;
  if (!columns.alike.empty()) {
    table.caption += (caption.empty() ? "" : " ") +
                     fmt::format("Alike in all: {}.", fmt::join(columns.alike, ", "));
  }
  table.columns = {number_column("#"),
                   number_column(s.bounds_only ? "at least" : objective_of(s).name),
                   number_column("to best")};
  for (const std::string& name : columns.names) {
    table.columns.push_back(text_column(name.c_str()));
  }
  if (gpus.size() > 1) {
    table.columns.push_back(number_column("GPUs"));
  }
  table.columns.push_back(number_column(s.bounds_only ? "least GiB" : "peak GiB"));
  if (!s.bounds_only) {
    table.columns.push_back(number_column("MFU"));
    table.columns.push_back(bar_column("where the step goes"));
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Strategy& one = *all[i];
    std::vector<Cell> row = {count_cell(static_cast<std::int64_t>(i) + 1),
                             Cell(objective_text(s, one.objective), one.objective),
                             change_cell(one.objective / s.best.objective - 1)};
    for (std::size_t k = 0; k < columns.keys.size(); ++k) {
      row.emplace_back(columns.value(one.overrides, k));
    }
    if (gpus.size() > 1) {
      row.push_back(count_cell(std::lround(one.gpus)));
    }
    row.push_back(gib_cell(one.peak.value));
    if (!s.bounds_only) {
      row.push_back(percent_cell(one.mfu));
      row.push_back(markup_cell(bar(time_parts(one), most)));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

void add_counts(Page& page, const Search& s) {
  page.section("counts", "What was looked at");
  const result::SearchCounts& c = s.counts;
  Table table;
  table.columns = {text_column("combinations"), number_column("")};
  const auto row = [&](const char* name, std::int64_t count) {
    table.rows.push_back({name, count_cell(count)});
  };
  row("all of the space", c.candidates);
  row("impossible: sizes that do not divide, or that the system refuses", c.impossible);
  row("too large by their least memory", c.memory_pruned);
  row(s.bounds_only ? "not looked at: others of their layout are slower already"
                    : "slower by their bound than the best found",
      c.time_pruned);
  s.bounds_only ? row("bounded", c.bounded) : row("simulated", c.simulated);
  if (!s.bounds_only) {
    row("of the simulated, do not fit in memory", c.misfit);
  }
  page.add(to_html(table));
  if (!s.refusals.empty()) {
    Table reasons;
    reasons.sortable = true;
    reasons.columns = {number_column("times"), prose_column("reason")};
    for (const auto& [reason, count] : s.refusals) {
      reasons.rows.push_back({count_cell(count), reason});
    }
    page.add(
        details(fmt::format("{} reasons of the impossible", s.refusals.size()), to_html(reasons)));
  }
}

void add_what_if(Page& page, const Search& s) {
  if (s.what_if.empty()) {
    return;
  }
  page.section("hardware", "What other hardware would bring",
               "The best strategy again, on a changed cluster.");
  Table table;
  table.columns = {text_column("change"), number_column(objective_of(s).name),
                   number_column("to best"), bar_column("")};
  double most = s.best.objective;
  for (const result::WhatIf& w : s.what_if) {
    most = std::max(most, w.objective);
  }
  table.rows.push_back({"as it is", Cell(objective_text(s, s.best.objective), s.best.objective), "",
                        markup_cell(bar({{"s-0", s.best.objective, ""}}, most))});
  for (const result::WhatIf& w : s.what_if) {
    table.rows.push_back({w.change, Cell(objective_text(s, w.objective), w.objective),
                          change_cell(w.objective / s.best.objective - 1),
                          markup_cell(bar({{"s-2", w.objective, ""}}, most, s.best.objective))});
  }
  page.add(to_html(table));
}

// Elsewhere a line of a list; here it stands by itself.
std::string sentence(std::string line) {
  if (line.empty()) {
    return line;
  }
  line.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(line.front())));
  return line + (line.back() == '.' ? "" : ".");
}

}  // namespace

std::string html(const Search& s) {
  Page page("Strategy search", s.title);
  if (!s.found) {
    page.section("best", s.stopped ? "Nothing found in the time given"
                                   : "No strategy of this space runs within memory");
    page.add(paragraph(s.nearest));
  } else {
    page.section("best", s.bounds_only ? "The least bound" : "The best strategy",
                 sentence(proof(s)));
    page.add(to_html(headline(s)));
    page.add("<pre class=\"fold\" tabindex=\"0\">" + html_text(set_options(s.best.overrides)) +
             "</pre>\n");
    for (const std::string& line : {s.why, s.against}) {
      page.add(line.empty() ? "" : paragraph(sentence(line)));
    }
    if (!s.bounds_only) {
      page.section("front", "Time against memory");
      page.add(pareto(s));
      std::vector<const Strategy*> front;
      for (const result::FrontPoint& p : s.front) {
        front.push_back(&p.best);
      }
      page.add(details("The front as a table", to_html(strategies(s, front, "front-table", ""))));
    }
    page.section("ranking", "Ranking");
    page.add(s.bounds_only ? "" : legend(kTimeMarks));
    std::vector<const Strategy*> ranking;
    for (const Strategy& one : s.ranking) {
      ranking.push_back(&one);
    }
    page.add(to_html(strategies(s, ranking, "ranking-table", "The best first.")));
    add_what_if(page, s);
  }
  add_counts(page, s);
  page.add(embedded_json("data", json(s)));
  return page.finish();
}

}  // namespace stepcast::report
