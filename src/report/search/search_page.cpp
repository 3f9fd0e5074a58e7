// A strategy search as one page.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "../page/page_parts.h"
#include "../page/page_plot.h"
#include "../record/tables.h"
#include "../text/format.h"
#include "../words/fit_words.h"
#include "search_conclusion.h"
#include "search_fields.h"
#include "stepcast/report/pages.h"
#include "stepcast/report/report.h"

namespace stepcast::report {
namespace {

using result::Search;
using result::Strategy;

std::vector<Tile> headline(const Search& s) {
  const Strategy& b = s.best;
  const bool time = s.objective == "time", better = b.objective < s.stated;
  std::vector<Tile> out = {number_tile(objective_of(s).name, objective_text(s, b.objective),
                                       time && !s.bounds_only ? between(b.step_time) : "",
                                       "objective", b.objective)};
  if (!time) {
    out.push_back(interval_tile("Step time", duration(b.step_time.value), between(b.step_time),
                                "step_time", b.step_time));
  }
  if (!s.bounds_only) {
    const bool open = s.gap > 0;
    out.push_back(number_tile("Proof", open ? fmt::format("gap {:.2f} %", 100 * s.gap) : "optimal",
                              open ? "is the largest possible improvement" : "within the space",
                              "gap", s.gap, open ? Tile::Tone::plain : Tile::Tone::good));
    out.push_back(number_tile("MFU", percent(b.mfu), "", "mfu", b.mfu));
  }
  const auto capacity = static_cast<double>(b.capacity.count());
  out.push_back(interval_tile("Peak memory", gibibytes(b.peak.value) + " GiB",
                              fmt::format("of {}", gibibytes(capacity)), "peak", b.peak));
  if (s.stated > 0) {
    out.push_back(number_tile("Against the job as given",
                              signed_percent(b.objective / s.stated - 1),
                              objective_text(s, s.stated) + " as given", "stated", s.stated,
                              better ? Tile::Tone::good : Tile::Tone::plain));
  }
  const result::SearchCounts& c = s.counts;
  const std::string done = s.bounds_only ? fmt::format("{} bounded", thousands(c.bounded))
                                         : fmt::format("{} simulated", thousands(c.simulated));
  out.push_back(number_tile("Combinations", thousands(c.candidates), done, "candidates",
                            static_cast<double>(c.candidates)));
  return out;
}

std::string facts_of(const Search& s, const Strategy& one) {
  return fmt::format("{}, {} GiB, MFU {}\n{}", objective_text(s, one.objective),
                     gibibytes(one.peak.value), percent(one.mfu), fmt::join(one.overrides, "\n"));
}

// The objective over memory, with a colour for each number of GPUs where there are several.
std::string pareto(const Search& s) {
  const std::vector<const Strategy*> all = shown_strategies(s);
  std::set<double> gpus;
  double low = s.best.objective, high = low, left = s.best.peak.value, right = left;
  const auto add = [&](const Strategy& one) {
    gpus.insert(one.gpus);
    low = std::min(low, one.objective);
    high = std::max(high, one.objective);
    left = std::min(left, one.peak.value);
    right = std::max(right, one.peak.value);
  };
  for (const Strategy* one : all) {
    add(*one);
  }
  const Objective o = objective_of(s);
  const double margin = std::max(0.02 * high, 0.08 * (high - low)) * o.scale;
  const double room = std::max(0.02 * right, 0.06 * (right - left)) / kGibibyte;
  PlotAxis x{std::max(0.0, left / kGibibyte - room), right / kGibibyte + room, false, {}, "GiB"};
  PlotAxis y{std::max(0.0, low * o.scale - margin), high * o.scale + margin, false, {}, o.unit};
  constexpr int kHeight = 280;
  Plot plot(x, y, kHeight);
  Plot::Points front;
  for (const Strategy* one : front_of_shown(s)) {
    front.emplace_back(one->peak.value / kGibibyte, one->objective * o.scale);
  }
  if (front.size() > 1) {
    plot.line(steps(front), "line l-1", "the best strategy within this memory");
  }
  const auto colour = [&](const Strategy& one) {
    const auto place = std::distance(gpus.begin(), gpus.find(one.gpus));
    return gpus.size() == 1 ? 0 : static_cast<int>(place) % 8;
  };
  for (const Strategy* one : all) {
    plot.dot(one->peak.value / kGibibyte, one->objective * o.scale,
             fmt::format("dot l-{}", colour(*one)), facts_of(s, *one));
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
  return figure(out, fmt::format("Horizontal axis: memory per GPU; vertical axis: {} ({}). The "
                                 "line is the best strategy within each amount of memory.",
                                 s.objective, o.unit));
}

// A strategy as a row: its rank, its figures, and a column for each key in which strategies differ.
Record strategy_row(const Search& s, const Strategy& one, std::size_t place,
                    const OverrideColumns& columns, bool with_gpus, double longest) {
  const bool bound = s.bounds_only;
  Record out = {{"", place + 1, "#", Show::count},
                {"", objective_text(s, one.objective), bound ? "at least" : objective_of(s).name,
                 Show::number},
                {"", one.objective / s.best.objective - 1, "to best", Show::change}};
  for (std::size_t k = 0; k < columns.keys.size(); ++k) {
    out.push_back({"", columns.value(one.overrides, k), columns.names[k]});
  }
  if (with_gpus) {
    out.push_back({"", std::lround(one.gpus), "GPUs", Show::count});
  }
  out.push_back({"", one.peak, bound ? "least GiB" : "peak GiB", Show::gib});
  if (!bound) {
    append(out, {{"", fit_words(one.fits), "fits"},
                 {"", one.mfu, "MFU", Show::percent},
                 {"", bar(strategy_parts(one, true), longest), "where the step goes", Show::bar}});
  }
  return out;
}

Table strategies_table(const Search& s, const std::vector<const Strategy*>& all, const char* id,
                       const std::string& caption) {
  std::vector<std::vector<std::string>> overrides;
  double longest = 0;
  std::set<double> gpus;
  for (const Strategy* one : all) {
    overrides.push_back(one->overrides);
    longest = std::max(longest, one->step_time.value);
    gpus.insert(one->gpus);
  }
  const OverrideColumns columns(overrides);
  const auto row = [&](const Strategy& one, std::size_t place) {
    return strategy_row(s, one, place, columns, gpus.size() > 1, longest);
  };
  Table table;
  table.id = id;
  table.sortable = true;
  table.caption = caption;
  if (!columns.alike.empty()) {
    table.caption +=
        (caption.empty() ? "" : " ") +
        fmt::format("Options that all strategies have: {}.", fmt::join(columns.alike, ", "));
  }
  table.columns = page_columns(row(s.best, 0));
  for (std::size_t i = 0; i < all.size(); ++i) {
    table.rows.push_back(page_row(row(*all[i], i)));
    table.rows.back()[1].number = all[i]->objective;
  }
  return table;
}

Record count_row(const std::pair<std::string, std::int64_t>& count) {
  return {{"", count.first, "combinations"}, {"", count.second, kNoHeading, Show::count}};
}

Record reason_row(const std::pair<std::string, std::int64_t>& refusal) {
  return {{"", refusal.second, "times", Show::count}, {"", refusal.first, "reason", Show::prose}};
}

void add_counts(Page& page, const Search& s) {
  page.section("counts", "Strategies considered");
  const result::SearchCounts& c = s.counts;
  std::vector<std::pair<std::string, std::int64_t>> counts = {
      {"all of the space", c.candidates},
      {"impossible: sizes that do not divide, or that the system refuses", c.impossible},
      {"the same job as another: a schedule without stages, an order of axes of one rank", c.alike},
      {"too large: the lower bound of memory exceeds the capacity", c.memory_pruned},
      {s.bounds_only
           ? "skipped: other strategies of the same layout are already slower than the best"
           : "skipped: the lower bound of time is above the best found",
       c.time_pruned},
      {s.bounds_only ? "bounded" : "simulated", s.bounds_only ? c.bounded : c.simulated}};
  if (!s.bounds_only) {
    counts.emplace_back("simulated, but do not fit in memory", c.misfit);
  }
  page.add(to_html(page_table(counts, count_row)));
  if (!s.refusals.empty()) {
    Table reasons = page_table(s.refusals, reason_row);
    reasons.sortable = true;
    page.add(details(fmt::format("Why combinations were ruled out ({})", s.refusals.size()),
                     to_html(reasons)));
  }
}

void add_what_if(Page& page, const Search& s) {
  if (s.what_if.empty()) {
    return;
  }
  page.section("hardware", "What other hardware would bring",
               "The best strategy again, on a changed cluster.");
  const double as_it_is = s.best.objective;
  double most = as_it_is;
  for (const result::WhatIf& w : s.what_if) {
    most = std::max(most, w.objective);
  }
  const auto row = [&](const std::string& change, double value, const Value& to_best,
                       const std::string& picture) -> Record {
    return {{"", change, "change"},
            {"", objective_text(s, value), objective_of(s).name, Show::number},
            {"", to_best, "to best", Show::change},
            {"", picture, kNoHeading, Show::bar}};
  };
  std::vector<Record> all = {row("as it is", as_it_is, "", bar({{"s-0", as_it_is, ""}}, most))};
  for (const result::WhatIf& w : s.what_if) {
    all.push_back(row(w.change, w.objective, w.objective / as_it_is - 1,
                      bar({{"s-2", w.objective, ""}}, most, as_it_is)));
  }
  Table table = page_table(all.front(), all);
  table.rows.front()[1].number = as_it_is;
  for (std::size_t i = 0; i < s.what_if.size(); ++i) {
    table.rows[i + 1][1].number = s.what_if[i].objective;
  }
  page.add(to_html(table));
}

// Turns a line of a list into a sentence.
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
  page.lead(conclusion(s));
  if (!s.found) {
    page.section("best", s.stopped          ? "No strategy found within the time limit"
                         : none_possible(s) ? "No combination of this space is possible"
                                            : "No strategy of this space runs within memory");
    page.add(paragraph(s.nearest));
  } else {
    page.section("best", s.bounds_only ? "The lowest bound" : "The best strategy",
                 sentence(proof_words(s)));
    page.add(to_html(headline(s)));
    page.add(strategy_options(s.best.overrides));
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
      page.add(
          details("The front as a table", to_html(strategies_table(s, front, "front-table", ""))));
    }
    page.section("ranking", "Ranking");
    page.add(s.bounds_only ? "" : legend(strategy_marks()));
    std::vector<const Strategy*> ranking;
    for (const Strategy& one : s.ranking) {
      ranking.push_back(&one);
    }
    page.add(to_html(strategies_table(s, ranking, "ranking-table", "The best first.")));
    add_what_if(page, s);
  }
  add_counts(page, s);
  page.add(embedded_json("data", json(s)));
  return page.finish();
}

}  // namespace stepcast::report
