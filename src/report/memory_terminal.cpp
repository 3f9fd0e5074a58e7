// Memory over the step for people: does it fit, how each stage fills, what stands at the peak.
#include <fmt/format.h>

#include <algorithm>

#include "job_line.h"
#include "memory_chart.h"
#include "stepcast/report/report.h"
#include "text_table.h"

namespace stepcast::report {
namespace {

using result::MemoryTimeline;
using result::StageTimeline;
using Align = TextTable::Align;

constexpr int kMinWidth = 80;
constexpr int kMaxPlot = 110;            // columns
constexpr std::size_t kTallCharts = 4;   // up to so many stages
constexpr std::size_t kMostCharts = 16;  // beyond: the first, the fullest and the last
constexpr int kTall = 10, kShort = 5;    // rows
constexpr std::size_t kMostTensors = 20;

double of(Bytes b) { return static_cast<double>(b.count()); }
double of(std::int64_t b) { return static_cast<double>(b); }

std::string heading(const Paint& paint, int width, std::string_view title,
                    std::string_view remark) {
  const std::string shown = shorten(remark, width - columns(title) - 2);
  return paint("1", title) + (shown.empty() ? "" : "  " + paint("2", shown)) + "\n";
}

const StageTimeline& fullest(const MemoryTimeline& memory) {
  return *std::max_element(
      memory.stages.begin(), memory.stages.end(),
      [](const StageTimeline& a, const StageTimeline& b) { return a.process < b.process; });
}

// Where in the step: "at 3.1 s: attention backward, micro-batch 4, chunk 1".
std::string place(const StageTimeline& s) {
  std::string out = fmt::format("at {}", duration(to_seconds(s.peak_at)));
  if (!s.peak_in.empty()) {
    out += fmt::format(": {}", s.peak_in);
  }
  if (s.micro_batch >= 0) {
    out += fmt::format(", micro-batch {}", s.micro_batch);
  }
  return out + (s.chunk > 0 ? fmt::format(", chunk {}", s.chunk) : "");
}

std::string verdict(const MemoryTimeline& memory, const Paint& paint) {
  const StageTimeline& most = fullest(memory);
  const double spare = of(memory.capacity) - of(most.process);
  std::string out = fmt::format("  Peak {} of {} GiB on stage {}: ", gibibytes(of(most.process)),
                                gibibytes(of(memory.capacity)), most.stage);
  if (spare < 0) {
    return out + paint("1;31", fmt::format("does NOT fit, {} GiB too much", gibibytes(-spare))) +
           "\n";
  }
  out += paint("1;32", fmt::format("fits, {} GiB to spare", gibibytes(spare)));
  return out + (memory.fits ? "" : paint("1;31", "; another stage does NOT fit")) + "\n";
}

std::string charts(const MemoryTimeline& memory, const Paint& paint, int width) {
  const StageTimeline& most = fullest(memory);
  ChartScale scale;
  scale.rows = memory.stages.size() <= kTallCharts ? kTall : kShort;
  scale.columns = std::min(kMaxPlot, width - kChartMargin);
  for (const StageTimeline& s : memory.stages) {
    for (const result::MemorySample& sample : s.samples) {
      scale.top = std::max({scale.top, of(sample.reserved), of(sample.allocated)});
    }
  }
  std::string out;
  std::vector<double> sums(chart_kinds().size(), 0.0);
  for (const StageTimeline& s : memory.stages) {
    if (memory.stages.size() > kMostCharts && &s != &most && &s != &memory.stages.front() &&
        &s != &memory.stages.back()) {
      continue;
    }
    out +=
        "\n" + heading(paint, width, fmt::format("Stage {}", s.stage),
                       fmt::format("▲ {} GiB allocated {}", gibibytes(of(s.allocated)), place(s)));
    out += memory_chart(s, scale, paint);
    if (!s.samples.empty()) {
      const double begin = to_seconds(s.samples.front().at);
      const std::string left = duration(begin);
      const std::string right = duration(to_seconds(s.samples.back().at));
      const std::string middle = "the step";
      const int gap = scale.columns - columns(left) - columns(right) - columns(middle);
      out +=
          paint("2", std::string(kChartMargin, ' ') + left +
                         std::string(static_cast<std::size_t>(std::max(1, gap / 2)), ' ') + middle +
                         std::string(static_cast<std::size_t>(std::max(1, gap - gap / 2)), ' ') +
                         right) +
          "\n";
    }
    for (const result::MemorySample& sample : s.samples) {
      const auto parts = chart_parts(sample);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        sums[i] = std::max(sums[i], parts[i]);
      }
    }
  }
  std::vector<std::string> values;
  for (const double sum : sums) {
    values.push_back(sum >= 0.0005 * scale.top ? gibibytes(sum) : "");
  }
  return out + paint("2", "  GiB; most of each over the step:") + "\n" +
         legend(chart_kinds(), values, width, paint);
}

std::string figures(const MemoryTimeline& memory, const Paint& paint, int width) {
  const auto any = [&](auto field) {
    return std::any_of(memory.stages.begin(), memory.stages.end(),
                       [&](const StageTimeline& s) { return field(s) > 0; });
  };
  const bool host = any([](const StageTimeline& s) { return s.host.count(); });
  const bool nvme = any([](const StageTimeline& s) { return s.nvme.count(); });
  const bool retries = any([](const StageTimeline& s) { return s.retries; });
  std::vector<TextTable::Column> head{
      {"stage", Align::left}, {"steady"},  {"first"}, {"allocated"}, {"active"},
      {"reserved"},           {"process"}, {"spare"}};
  if (host) {
    head.push_back({"host"});
  }
  if (nvme) {
    head.push_back({"NVMe"});
  }
  if (retries) {
    head.push_back({"retries"});
  }
  TextTable table(head);
  for (const StageTimeline& s : memory.stages) {
    std::vector<std::string> row{
        fmt::to_string(s.stage),     gibibytes(of(s.steady)),
        gibibytes(of(s.first_step)), gibibytes(of(s.allocated)),
        gibibytes(of(s.active)),     gibibytes(of(s.reserved)),
        gibibytes(of(s.process)),    gibibytes(of(memory.capacity) - of(s.process))};
    if (host) {
      row.push_back(gibibytes(of(s.host)));
    }
    if (nvme) {
      row.push_back(gibibytes(of(s.nvme)));
    }
    if (retries) {
      row.push_back(fmt::to_string(s.retries));
    }
    table.row(std::move(row));
  }
  std::string out =
      heading(
          paint, width, "Peaks per GPU",
          fmt::format("GiB; steady: allocated between steps; first: the first step's; capacity {}",
                      gibibytes(of(memory.capacity)))) +
      table.text(paint, width);
  const StageTimeline& most = fullest(memory);
  std::string parts;
  for (const StageTimeline::Outside& part : most.outside) {
    parts += fmt::format("{}{} {:.2f}", parts.empty() ? "" : ", ", part.what,
                         of(part.bytes) / (1 << 30));
  }
  if (!parts.empty()) {
    out += "  " +
           wrap(fmt::format("outside the allocator, stage {}: {}", most.stage, parts), width, 4) +
           "\n";
  }
  return out;
}

std::string standing(const MemoryTimeline& memory, const Paint& paint, int width) {
  const StageTimeline& s = fullest(memory);
  if (s.at_peak.empty()) {
    return "";
  }
  TextTable table({{"total"},
                   {"share"},
                   {"count"},
                   {"each"},
                   {"since"},
                   {"category", Align::left},
                   {"stream", Align::left},
                   {"tensor", Align::left}});
  const std::size_t shown = std::min(s.at_peak.size(), kMostTensors);
  std::int64_t listed = 0;
  for (std::size_t i = 0; i < shown; ++i) {
    const result::StandingTensor& t = s.at_peak[i];
    listed += t.total();
    const std::string label =
        t.part_of.empty() ? t.label : fmt::format("{} ({})", t.label, t.part_of);
    table.row({data_size(of(t.total())), percent(of(t.total()) / of(s.allocated)),
               thousands(t.count), data_size(of(t.bytes)),
               t.from_before ? "before" : duration(to_seconds(t.since)), to_string(t.category),
               t.stream, label});
  }
  std::string out =
      heading(paint, width, fmt::format("What stands at the peak of stage {}", s.stage),
              memory.stages.size() > 1 ? "--stage N shows another stage's" : "") +
      table.text(paint, width);
  if (s.at_peak.size() > shown) {
    out += fmt::format("  and {} more: {}\n", s.at_peak.size() - shown,
                       data_size(of(s.allocated) - of(listed)));
  }
  return out;
}

}  // namespace

std::string terminal(const MemoryTimeline& memory, bool colour, int width) {
  width = std::max(width, kMinWidth);
  const Paint paint{colour};
  std::string out = paint("1", memory.title) + "\n";
  if (const std::string job = job_line(memory.job_json, memory.ranks); !job.empty()) {
    out += wrap(job, width, 0) + "\n";
  }
  if (memory.stages.empty()) {
    return out;
  }
  return out + verdict(memory, paint) + charts(memory, paint, width) + "\n" +
         figures(memory, paint, width) + "\n" + standing(memory, paint, width);
}

}  // namespace stepcast::report
