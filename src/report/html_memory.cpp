// What fills the GPUs: each stage's peak by category, and its memory over the step.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "format.h"
#include "html_parts.h"
#include "memory_chart.h"
#include "page_plot.h"

namespace stepcast::report {
namespace {

using result::StageMemory;
using result::StageTimeline;
using Is = Column::Kind;

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr std::size_t kMostPanels = 4;  // more: in a fold

double of(Bytes b) { return static_cast<double>(b.count()); }

// A kind of memory_chart.h as a colour.
std::string colour_of(std::string_view kind) {
  return kind.starts_with("waiting") ? "m-other" : "m-" + std::string(kind);
}

// Samples thinned to what a panel can show: of each of so many columns the fullest.
std::vector<result::MemorySample> thinned(const StageTimeline& s) {
  constexpr double kColumns = 400;
  const double begin = to_seconds(s.samples.front().at);
  const double span = std::max(1e-12, to_seconds(s.samples.back().at) - begin);
  std::map<int, const result::MemorySample*> fullest;
  for (const result::MemorySample& m : s.samples) {
    const int column = static_cast<int>((to_seconds(m.at) - begin) / span * kColumns);
    const auto [it, fresh] = fullest.try_emplace(column, &m);
    if (!fresh && m.allocated > it->second->allocated) {
      it->second = &m;
    }
  }
  std::vector<result::MemorySample> out;
  for (const auto& [column, sample] : fullest) {
    out.push_back(*sample);
  }
  return out;
}

std::string panel(const StageTimeline& s, double capacity, double top) {
  const auto samples = thinned(s);
  const double begin = to_seconds(samples.front().at), end = to_seconds(samples.back().at);
  const TimeUnit unit = unit_for(std::max(1e-9, end - begin));
  const auto x = [&](Time t) { return to_seconds(t) * unit.per_second; };
  Plot plot({begin * unit.per_second, end * unit.per_second, false, {}, std::string(unit.name)},
            {0, top / kGiB, false, {}, "GiB"}, 150);
  const auto kinds = chart_kinds();
  std::vector<std::vector<double>> parts;
  for (const auto& sample : samples) {
    parts.push_back(chart_parts(sample));
  }
  Plot::Points lower;
  for (const auto& sample : samples) {
    lower.emplace_back(x(sample.at), 0);
  }
  std::vector<double> sum(samples.size(), 0);
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    Plot::Points upper;
    double most = 0;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      sum[i] += parts[i][k] / kGiB;
      most = std::max(most, parts[i][k]);
      upper.emplace_back(x(samples[i].at), sum[i]);
    }
    if (most > 0) {
      plot.area(steps(upper), steps(lower), "k-" + colour_of(kinds[k].name),
                fmt::format("{}, at most {} GiB", kinds[k].name, gibibytes(most)));
    }
    lower = std::move(upper);
  }
  plot.rule(capacity / kGiB, "capacity " + gibibytes(capacity));
  plot.rule(of(s.process) / kGiB, "process " + gibibytes(of(s.process)));
  const std::string told =
      fmt::format("Stage {}: {} GiB allocated at {}{}; {} reserved, {} of the process, {} to spare",
                  s.stage, gibibytes(of(s.allocated)), duration(to_seconds(s.peak_at)),
                  s.peak_in.empty() ? "" : " (" + s.peak_in + ")", gibibytes(of(s.reserved)),
                  gibibytes(of(s.process)), gibibytes(capacity - of(s.process)));
  return figure(plot.finish(told), told);
}

void add_over_time(Page& page, const result::MemoryTimeline& timeline) {
  std::vector<const StageTimeline*> drawn;
  double top = of(timeline.capacity);
  for (const StageTimeline& s : timeline.stages) {
    if (!s.samples.empty()) {
      drawn.push_back(&s);
      top = std::max(top, of(s.process));
    }
  }
  if (drawn.empty()) {
    return;
  }
  // First, last, and the fullest ones; the others are in the fold, by stage.
  std::vector<const StageTimeline*> order = drawn;
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return a->process > b->process; });
  std::set<const StageTimeline*> open = {drawn.front(), drawn.back()};
  for (const StageTimeline* s : order) {
    if (open.size() < kMostPanels) {
      open.insert(s);
    }
  }
  std::string shown, folded;
  for (const StageTimeline* s : drawn) {
    (open.count(s) > 0 ? shown : folded) += panel(*s, of(timeline.capacity), top * 1.04);
  }
  page.add("<h3>Over the step</h3>\n<div class=\"columns\">" + shown + "</div>\n");
  if (!folded.empty()) {
    page.add(details(fmt::format("The other {} stages", drawn.size() - open.size()),
                     "<div class=\"columns\">" + folded + "</div>\n"));
  }
}

void add_standing(Page& page, const result::MemoryTimeline& timeline) {
  const auto fullest = std::max_element(
      timeline.stages.begin(), timeline.stages.end(),
      [](const StageTimeline& a, const StageTimeline& b) { return a.process < b.process; });
  if (fullest == timeline.stages.end() || fullest->at_peak.empty()) {
    return;
  }
  Table table;
  table.id = "standing";
  table.columns = {{"total", Is::number, ""},
                   {"count", Is::number, ""},
                   {"each", Is::number, ""},
                   {"category", Is::text, ""},
                   {"tensor", Is::text, ""}};
  constexpr std::size_t kMost = 24;
  for (const result::StandingTensor& t : fullest->at_peak) {
    if (table.rows.size() == kMost) {
      break;
    }
    const auto total = static_cast<double>(t.total());
    table.rows.push_back({Cell(data_size(total), total),
                          Cell(thousands(t.count), static_cast<double>(t.count)),
                          data_size(static_cast<double>(t.bytes)), to_string(t.category),
                          t.part_of.empty() ? t.label : t.label + " (" + t.part_of + ")"});
  }
  page.add(details(fmt::format("Largest tensors at the peak of stage {}", fullest->stage),
                   to_html(table)));
}

}  // namespace

void add_memory(Page& page, const result::Report& report, const result::MemoryTimeline& timeline) {
  if (report.memory.empty()) {
    return;
  }
  const double capacity = of(report.capacity);
  page.section("memory", "Memory",
               fmt::format("GiB per GPU at each stage's peak; the rule is what a GPU has, {}.",
                           gibibytes(capacity)));
  constexpr auto kParts = spellings(program::MemoryCategory{});
  double whole = capacity;
  std::vector<Mark> marks;
  std::vector<std::size_t> shown;
  for (std::size_t i = 0; i < kParts.size(); ++i) {
    Bytes most(0);
    for (const StageMemory& m : report.memory) {
      most = std::max(most, result::part_of(m, kParts[i].value));
    }
    if (most > Bytes(0)) {
      shown.push_back(i);
      marks.push_back({fmt::format("m-{}", kParts[i].word), kParts[i].word, ""});
    }
  }
  marks.push_back({"m-cached", "cached", ""});
  marks.push_back({"m-outside", "outside the allocator", ""});
  for (const StageMemory& m : report.memory) {
    whole = std::max(whole, of(m.process));
  }
  page.add(legend(marks));
  Table table;
  table.id = "memory-table";
  table.columns = {{"stage", Is::number, ""}, {"", Is::bar, ""}};
  for (const std::size_t i : shown) {
    table.columns.push_back({kParts[i].word, Is::number, ""});
  }
  for (const char* name : {"allocated", "reserved", "process", "used"}) {
    table.columns.push_back({name, Is::number, ""});
  }
  const auto gib = [](Bytes b) { return Cell(gibibytes(of(b)), of(b)); };
  for (const StageMemory& m : report.memory) {
    std::vector<Part> parts;
    for (const std::size_t i : shown) {
      const double bytes = of(result::part_of(m, kParts[i].value));
      parts.push_back({fmt::format("m-{}", kParts[i].word), bytes,
                       fmt::format("{} {} GiB", kParts[i].word, gibibytes(bytes))});
    }
    const double cached = std::max(0.0, of(m.reserved) - of(m.allocated));
    parts.push_back({"m-cached", cached, fmt::format("cached {} GiB", gibibytes(cached))});
    const double outside = std::max(0.0, of(m.process) - of(m.reserved));
    parts.push_back(
        {"m-outside", outside, fmt::format("outside the allocator {} GiB", gibibytes(outside))});
    Cell drawn = bar(parts, whole * 1.02, capacity);
    drawn.markup = true;
    std::vector<Cell> row = {Cell(std::to_string(m.stage), m.stage), drawn};
    for (const std::size_t i : shown) {
      row.push_back(gib(result::part_of(m, kParts[i].value)));
    }
    row.push_back(gib(m.allocated));
    row.push_back(gib(m.reserved));
    row.push_back(gib(m.process));
    Cell used(percent(of(m.process) / capacity), of(m.process) / capacity);
    used.bad = of(m.process) > capacity;
    row.push_back(used);
    table.rows.push_back(std::move(row));
  }
  page.add(to_html(table));
  add_over_time(page, timeline);
  add_standing(page, timeline);
}

}  // namespace stepcast::report
