#include "memory_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "../page/page_parts.h"
#include "../page/page_plot.h"
#include "../record/tables.h"
#include "memory_chart.h"
#include "memory_kinds.h"

namespace stepcast::report {
namespace {

using result::StageMemory;
using result::StageTimeline;

constexpr std::size_t kMaxPanels = 4;  // further panels are folded

// The colour of a kind of memory_chart.h.
std::string memory_colour(std::string_view kind) {
  return kind.starts_with("waiting") ? "m-other" : "m-" + std::string(kind);
}

// Samples thinned to what a panel can show: the fullest of each column.
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
            {0, top / kGibibyte, false, {}, "GiB"}, 150);
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
      sum[i] += parts[i][k] / kGibibyte;
      most = std::max(most, parts[i][k]);
      upper.emplace_back(x(samples[i].at), sum[i]);
    }
    if (most > 0) {
      plot.area(steps(upper), steps(lower), "k-" + memory_colour(kinds[k].name),
                fmt::format("{}, at most {} GiB", kinds[k].name, gibibytes(most)));
    }
    lower = std::move(upper);
  }
  plot.rule(capacity / kGibibyte, "capacity " + gibibytes(capacity));
  plot.rule(bytes_of(s.process) / kGibibyte, "process " + gibibytes(bytes_of(s.process)));
  const std::string facts =
      fmt::format("Stage {}: {} GiB allocated at {}{}; {} reserved, {} of the process, {} to spare",
                  s.stage, gibibytes(bytes_of(s.allocated)), duration(to_seconds(s.peak_at)),
                  s.peak_in.empty() ? "" : " (" + s.peak_in + ")", gibibytes(bytes_of(s.reserved)),
                  gibibytes(bytes_of(s.process)), gibibytes(capacity - bytes_of(s.process)));
  return figure(plot.finish(facts), facts);
}

void add_over_time(Page& page, const result::MemoryTimeline& timeline) {
  std::vector<const StageTimeline*> drawn;
  double top = bytes_of(timeline.capacity);
  for (const StageTimeline& s : timeline.stages) {
    if (!s.samples.empty()) {
      drawn.push_back(&s);
      top = std::max(top, bytes_of(s.process));
    }
  }
  if (drawn.empty()) {
    return;
  }
  // The first, the last and the fullest stages are shown; the others are folded, in order of
  // stages.
  std::vector<const StageTimeline*> order = drawn;
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return a->process > b->process; });
  std::set<const StageTimeline*> open = {drawn.front(), drawn.back()};
  for (const StageTimeline* s : order) {
    if (open.size() < kMaxPanels) {
      open.insert(s);
    }
  }
  std::string shown, folded;
  for (const StageTimeline* s : drawn) {
    (open.count(s) > 0 ? shown : folded) += panel(*s, bytes_of(timeline.capacity), top * 1.04);
  }
  page.add("<h3>Over the step</h3>\n<div class=\"columns\">" + shown + "</div>\n");
  if (!folded.empty()) {
    page.add(details(fmt::format("The other {} stages", drawn.size() - open.size()),
                     "<div class=\"columns\">" + folded + "</div>\n"));
  }
}

void add_standing(Page& page, const result::MemoryTimeline& timeline) {
  if (timeline.stages.empty() || fullest(timeline).at_peak.empty()) {
    return;
  }
  const StageTimeline& most = fullest(timeline);
  constexpr std::size_t kMaxTensors = 24;
  std::vector<result::StandingTensor> largest = most.at_peak;
  largest.resize(std::min(largest.size(), kMaxTensors));
  const auto row = [](const result::StandingTensor& t) -> Record {
    return {{"", t.total(), "total", Show::size},
            {"", t.count, "count", Show::count},
            {"", data_size(static_cast<double>(t.bytes)), "each", Show::number},
            {"", to_string(t.category), "category"},
            {"", t.part_of.empty() ? t.label : t.label + " (" + t.part_of + ")", "tensor"}};
  };
  Table table = page_table(largest, row);
  table.id = "standing";
  page.add(
      details(fmt::format("Largest tensors at the peak of stage {}", most.stage), to_html(table)));
}

// One stage as a row; `shown`: categories that some stage has, by their place in
// result::kMemoryParts.
std::vector<Cell> stage_row(const StageMemory& m, const std::vector<std::size_t>& shown,
                            double capacity, double whole) {
  const auto gib = [](Bytes b) { return Cell(gibibytes(bytes_of(b)), bytes_of(b)); };
  std::vector<Part> parts;
  const auto part = [&](const std::string& colour, std::string_view name, double bytes) {
    parts.push_back({colour, bytes, fmt::format("{} {} GiB", name, gibibytes(bytes))});
  };
  for (const std::size_t i : shown) {
    const std::string_view name = kMemoryKinds[i].name;
    part(memory_colour(name), name, bytes_of(m.*result::kMemoryParts[i]));
  }
  part("m-cached", "cached", std::max(0.0, bytes_of(m.reserved) - bytes_of(m.allocated)));
  part("m-outside", "outside the allocator",
       std::max(0.0, bytes_of(m.process) - bytes_of(m.reserved)));
  std::vector<Cell> row = {Cell(std::to_string(m.stage), m.stage),
                           markup_cell(bar(parts, whole, capacity))};
  for (const std::size_t i : shown) {
    row.push_back(gib(m.*result::kMemoryParts[i]));
  }
  for (const Bytes peak : {m.allocated, m.reserved, m.process}) {
    row.push_back(gib(peak));
  }
  row.emplace_back(percent(bytes_of(m.process) / capacity), bytes_of(m.process) / capacity);
  row.back().bad = bytes_of(m.process) > capacity;
  return row;
}

}  // namespace

void add_memory(Page& page, const result::Report& report, const result::MemoryTimeline& timeline) {
  if (report.memory.empty()) {
    return;
  }
  const double capacity = bytes_of(report.capacity);
  page.section(
      "memory", "Memory",
      fmt::format(
          "GiB per GPU at each stage's peak; the vertical line is the GPU's usable memory, {}.",
          gibibytes(capacity)));
  Table table;
  table.id = "memory-table";
  table.columns = {{"stage", Column::Kind::number, ""}, {"", Column::Kind::bar, ""}};
  std::vector<Mark> marks;
  std::vector<std::size_t> shown;
  for (std::size_t i = 0; i < result::kMemoryParts.size(); ++i) {
    const bool any =
        std::any_of(report.memory.begin(), report.memory.end(),
                    [&](const StageMemory& m) { return m.*result::kMemoryParts[i] > Bytes(0); });
    if (any) {
      const std::string name(kMemoryKinds[i].name);
      shown.push_back(i);
      marks.push_back({memory_colour(name), name, ""});
      table.columns.push_back({name, Column::Kind::number, ""});
    }
  }
  marks.push_back({"m-cached", "cached", ""});
  marks.push_back({"m-outside", "outside the allocator", ""});
  page.add(legend(marks));
  for (const char* name : {"allocated", "reserved", "process", "used"}) {
    table.columns.push_back({name, Column::Kind::number, ""});
  }
  double whole = capacity;
  for (const StageMemory& m : report.memory) {
    whole = std::max(whole, bytes_of(m.process));
  }
  for (const StageMemory& m : report.memory) {
    table.rows.push_back(stage_row(m, shown, capacity, whole * 1.02));
  }
  page.add(to_html(table));
  add_over_time(page, timeline);
  add_standing(page, timeline);
}

}  // namespace stepcast::report
