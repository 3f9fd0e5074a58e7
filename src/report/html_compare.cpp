// One job under many training systems, as one page.
#include <fmt/format.h>

#include <algorithm>

#include "format.h"
#include "page_parts.h"
#include "stepcast/report/pages.h"
#include "stepcast/report/report.h"
#include "system_kind.h"

namespace stepcast::report {
namespace {

using result::ComparedSystem;
using result::Comparison;

std::vector<Part> time_parts(const ComparedSystem& s) {
  const double step = s.step_time.value;
  const double bubble = s.bubble_fraction * step;
  const auto part = [&](const char* colour, const char* name, double seconds) {
    return Part{colour, seconds,
                fmt::format("{}: {}, {}", name, duration(seconds), percent(seconds / step))};
  };
  return {part("compute", "computation and the rest", step - s.exposed - bubble),
          part("tensor", "exposed communication", s.exposed), part("bubble", "bubble", bubble)};
}

Table times(const Comparison& c, double most) {
  Table table;
  table.id = "systems";
  table.sortable = true;
  table.caption = "The fastest first. The whisker is the 90 % interval.";
  table.columns = {text_column("system"),         text_column("kind"),
                   number_column("step time"),    number_column("MFU"),
                   number_column("tokens/s/GPU"), number_column("exposed"),
                   number_column("bubble"),       bar_column("where the step goes")};
  for (const ComparedSystem& s : c.systems) {
    if (!s.ran) {
      continue;
    }
    Cell name(s.name);
    name.hint = s.generation;
    name.bad = !s.fits;
    table.rows.push_back(
        {name, std::string(name_of(s.kind)), seconds_cell(s.step_time.value),
         percent_cell(s.mfu.value),
         Cell(significant(s.tokens_per_second_per_gpu.value, 4), s.tokens_per_second_per_gpu.value),
         percent_cell(s.exposed / s.step_time.value), percent_cell(s.bubble_fraction),
         markup_cell(interval_bar(time_parts(s), s.step_time.low, s.step_time.high, most))});
  }
  return table;
}

Table memory(const Comparison& c, double most) {
  Table table;
  table.id = "memory-table";
  table.sortable = true;
  table.caption = "The rule is the GPU's capacity; bars end at twice that.";
  table.columns = {text_column("system"),   number_column("peak GiB"),
                   number_column("of GiB"), text_column("fits"),
                   text_column("sharding"), text_column("recompute"),
                   text_column("schedule"), bar_column("")};
  for (const ComparedSystem& s : c.systems) {
    if (!s.ran) {
      continue;
    }
    Cell fits = s.fits ? "yes" : "no";
    fits.bad = !s.fits;
    const auto capacity = static_cast<double>(s.capacity.count());
    table.rows.push_back(
        {s.name, gib_cell(s.peak.value), gib_cell(capacity), fits, s.sharding, s.recompute,
         s.schedule,
         markup_cell(bar({{s.fits ? "s-0" : "s-1", s.peak.value, ""}}, most, capacity))});
  }
  return table;
}

}  // namespace

std::string html(const Comparison& c) {
  Page page("Training systems compared", c.title);
  double longest = 0, fullest = 0;
  std::int64_t ran = 0, fit = 0;
  const ComparedSystem* best = nullptr;
  for (const ComparedSystem& s : c.systems) {
    if (!s.ran) {
      continue;
    }
    ++ran;
    fit += s.fits ? 1 : 0;
    best = best == nullptr && s.fits ? &s : best;  // sorted by step time
    longest = std::max(longest, s.step_time.high);
    const auto capacity = static_cast<double>(s.capacity.count());
    fullest = std::max({fullest, capacity, std::min(s.peak.value, 2 * capacity)});
  }
  page.section("best", "At a glance");
  std::vector<Tile> tiles;
  if (best != nullptr) {
    tiles.push_back({"Fastest that fits", best->name, best->generation, "", {}});
    tiles.push_back({"Its step",
                     duration(best->step_time.value),
                     between(best->step_time),
                     "step_time",
                     {best->step_time.value, best->step_time.low, best->step_time.high}});
    tiles.push_back({"Its MFU", percent(best->mfu.value), "", "mfu", {best->mfu.value}});
  }
  tiles.push_back({"Run the job",
                   fmt::format("{} of {}", ran, c.systems.size()),
                   "systems",
                   "ran",
                   {static_cast<double>(ran)}});
  tiles.push_back({"Fit in memory",
                   fmt::format("{} of {}", fit, ran),
                   "of those that run it",
                   "fit",
                   {static_cast<double>(fit)},
                   fit > 0 ? Tile::Tone::plain : Tile::Tone::bad});
  page.add(to_html(tiles));
  if (ran > 0) {
    page.section("time", "Where the step goes",
                 "Systems in red do not fit; their times are what they would be.");
    page.add(legend({{"compute", "computation and the rest", ""},
                     {"tensor", "exposed communication", ""},
                     {"bubble", "bubble", ""}}));
    page.add(to_html(times(c, longest)));
    page.section("memory", "Memory per GPU at its peak");
    page.add(to_html(memory(c, fullest * 1.02)));
  }
  if (ran < static_cast<std::int64_t>(c.systems.size())) {
    page.section("refused", "Do not run it");
    Table table;
    table.columns = {text_column("system"), text_column("kind"), text_column("key"),
                     prose_column("why")};
    for (const ComparedSystem& s : c.systems) {
      if (!s.ran) {
        table.rows.push_back(
            {s.name, std::string(name_of(s.kind)), s.key, brief_reason(s.name, s.reason)});
      }
    }
    page.add(to_html(table));
  }
  page.add(embedded_json("data", json(c)));
  return page.finish();
}

}  // namespace stepcast::report
