// One job under many training systems, as one page.
#include <fmt/format.h>

#include <algorithm>

#include "../page/page_parts.h"
#include "../record/tables.h"
#include "../text/format.h"
#include "compare_conclusion.h"
#include "compare_fields.h"
#include "stepcast/report/pages.h"
#include "stepcast/report/report.h"

namespace stepcast::report {
namespace {

using result::ComparedSystem;
using result::Comparison;

// Fields of a system with its bar of time, `longest` seconds wide.
Record time_fields(const ComparedSystem& s, double longest) {
  const double step = s.step_time.value, bubble = s.bubble_fraction * step;
  const std::vector<Part> parts = {
      time_part("compute", "compute and other time", step - s.exposed - bubble, step),
      time_part("tensor", "exposed communication", s.exposed, step),
      time_part("bubble", "bubble", bubble, step)};
  Record out = compared_fields(s);
  out.push_back({"", interval_bar(parts, s.step_time.low, s.step_time.high, longest),
                 "where the step goes", Show::bar});
  return out;
}

// The same with its bar of memory. Here a column of its own, and not the name, says whether a
// system fits.
Record memory_fields(const ComparedSystem& s, double fullest) {
  Record out = compared_fields(s);
  out.front().bad = false;
  out.front().hint.clear();
  const auto capacity = static_cast<double>(s.capacity.count());
  out.push_back({"", bar({{s.fits ? "s-0" : "s-1", s.peak.value, ""}}, fullest, capacity),
                 kNoHeading, Show::bar});
  return out;
}

Record refused_system_fields(const ComparedSystem& s) {
  Record out = compared_fields(s);
  out.front().hint.clear();
  return out;
}

Table sorted_table(const char* id, const char* caption, Table table) {
  table.id = id;
  table.caption = caption;
  table.sortable = true;
  return table;
}

// `ran`: the systems that run the job, by step time; of so many systems in all.
std::vector<Tile> glance(const std::vector<ComparedSystem>& ran, std::size_t systems) {
  std::vector<Tile> tiles;
  // Sorted by step time: the first that fits is the fastest.
  const auto best =
      std::find_if(ran.begin(), ran.end(), [](const ComparedSystem& s) { return s.fits; });
  if (best != ran.end()) {
    tiles.push_back({"Fastest that fits", best->name, best->generation, "", {}});
    tiles.push_back(interval_tile("Its step", duration(best->step_time.value),
                                  between(best->step_time), "step_time", best->step_time));
    tiles.push_back(number_tile("Its MFU", percent(best->mfu.value), "", "mfu", best->mfu.value));
  }
  const auto fit = std::count_if(ran.begin(), ran.end(), [](const auto& s) { return s.fits; });
  tiles.push_back(number_tile("Run the job", fmt::format("{} of {}", ran.size(), systems),
                              "systems", "ran", static_cast<double>(ran.size())));
  tiles.push_back(number_tile("Fit in memory", fmt::format("{} of {}", fit, ran.size()),
                              "of those that run it", "fit", static_cast<double>(fit),
                              fit > 0 ? Tile::Tone::plain : Tile::Tone::bad));
  return tiles;
}

}  // namespace

std::string html(const Comparison& c) {
  Page page("Training systems compared", c.title);
  page.lead(conclusion(c));
  double longest = 0, fullest = 0;
  std::vector<ComparedSystem> ran, refused;
  for (const ComparedSystem& s : c.systems) {
    (s.ran ? ran : refused).push_back(s);
    if (s.ran) {
      longest = std::max(longest, s.step_time.high);
      const auto capacity = static_cast<double>(s.capacity.count());
      fullest = std::max({fullest, capacity, std::min(s.peak.value, 2 * capacity)});
    }
  }
  page.section("best", "At a glance");
  page.add(to_html(glance(ran, c.systems.size())));
  if (!ran.empty()) {
    page.section("time", "Where the step goes",
                 "Systems in red do not fit in memory; their times are forecast as if they did.");
    page.add(legend({{"compute", "compute and other time", ""},
                     {"tensor", "exposed communication", ""},
                     {"bubble", "bubble", ""}}));
    const auto times = [&](const ComparedSystem& s) { return time_fields(s, longest); };
    const std::vector<Record> by_time = records(ran, times);
    page.add(to_html(sorted_table("systems", "The fastest first. The whisker is the 90 % interval.",
                                  page_table(by_time.front(), by_time,
                                             {"system", "kind", "step time", "MFU", "tokens/s/GPU",
                                              "exposed", "bubble", "where the step goes"}))));
    page.section("memory", "Memory per GPU at its peak");
    const auto filled = [&](const ComparedSystem& s) { return memory_fields(s, fullest * 1.02); };
    const std::vector<Record> by_memory = records(ran, filled);
    page.add(to_html(sorted_table(
        "memory-table", "The vertical line is the GPU's capacity; bars end at twice the capacity.",
        page_table(by_memory.front(), by_memory,
                   {"system",
                    "peak GiB",
                    "of GiB",
                    "fits",
                    "sharding",
                    "recompute",
                    "schedule",
                    {kNoHeading, ""}}))));
  }
  if (!refused.empty()) {
    page.section("refused", "Systems that cannot run the job");
    page.add(to_html(page_table(refused, refused_system_fields, {"system", "kind", "key", "why"})));
  }
  page.add(embedded_json("data", json(c)));
  return page.finish();
}

}  // namespace stepcast::report
