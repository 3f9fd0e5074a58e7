// Memory over the step for people: whether it fits, each stage's memory, and the tensors live at
// the peak.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "../record/tables.h"
#include "../text/format.h"
#include "../words/fit_words.h"
#include "../words/job_line.h"
#include "../words/sentences.h"
#include "memory_chart.h"
#include "memory_conclusion.h"
#include "stepcast/report/report.h"

namespace stepcast::report {
namespace {

using result::MemoryTimeline;
using result::StageTimeline;

constexpr int kMinMemoryWidth = 80;
constexpr int kMaxPlot = 110;           // columns
constexpr std::size_t kTallCharts = 4;  // charts are tall up to this number of stages
// Of more stages, only the first, the fullest and the last have charts.
constexpr std::size_t kMaxCharts = 16;
constexpr int kTall = 10, kShort = 5;  // rows
constexpr std::size_t kMaxTensors = 20;

// The place of the peak in the step: "at 3.1 s: attention backward, micro-batch 4, chunk 1".
std::string peak_place(const StageTimeline& s) {
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
  const std::string out =
      fmt::format("  Peak {} of {} GiB on stage {}: ", gibibytes(bytes_of(most.process)),
                  gibibytes(bytes_of(memory.capacity)), most.stage);
  return out + paint(memory.fits ? "1;32" : "1;31", fit_clause(memory.fits)) + "\n";
}

std::string charts(const MemoryTimeline& memory, const Paint& paint, int width) {
  const StageTimeline& most = fullest(memory);
  ChartScale scale;
  scale.rows = memory.stages.size() <= kTallCharts ? kTall : kShort;
  scale.columns = std::min(kMaxPlot, width - kChartMargin);
  for (const StageTimeline& s : memory.stages) {
    for (const result::MemorySample& sample : s.samples) {
      scale.top = std::max({scale.top, bytes_of(sample.reserved), bytes_of(sample.allocated)});
    }
  }
  std::string out;
  std::vector<double> sums(chart_kinds().size(), 0.0);
  for (const StageTimeline& s : memory.stages) {
    if (memory.stages.size() > kMaxCharts && &s != &most && &s != &memory.stages.front() &&
        &s != &memory.stages.back()) {
      continue;
    }
    out += "\n" + heading(paint, fmt::format("Stage {}", s.stage),
                          fmt::format("▲ {} GiB allocated {}", gibibytes(bytes_of(s.allocated)),
                                      peak_place(s)),
                          width);
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
  return out + paint("2", "  GiB; peak of each category over the step:") + "\n" +
         legend(chart_kinds(), values, width, paint);
}

std::string peaks(const MemoryTimeline& memory, const Paint& paint, int width) {
  const auto any = [&](auto field) {
    return std::any_of(memory.stages.begin(), memory.stages.end(),
                       [&](const StageTimeline& s) { return field(s) > 0; });
  };
  Captions columns = {"stage",  "steady",   "first",   "allocated",
                      "active", "reserved", "process", "spare"};
  if (any([](const StageTimeline& s) { return s.host.count(); })) {
    columns.emplace_back("host");
  }
  if (any([](const StageTimeline& s) { return s.nvme.count(); })) {
    columns.emplace_back("NVMe");
  }
  if (any([](const StageTimeline& s) { return s.retries; })) {
    columns.emplace_back("retries");
  }
  const auto row = [&](const StageTimeline& s) -> Record {
    return {{"", s.stage, "stage"},
            {"", s.steady, "steady", Show::gib},
            {"", s.first_step, "first", Show::gib},
            {"", s.allocated, "allocated", Show::gib},
            {"", s.active, "active", Show::gib},
            {"", s.reserved, "reserved", Show::gib},
            {"", s.process, "process", Show::gib},
            {"", memory.capacity - s.process, "spare", Show::gib},
            {"", s.host, "host", Show::gib},
            {"", s.nvme, "NVMe", Show::gib},
            {"", s.retries, "retries", Show::number}};
  };
  std::string out =
      heading(
          paint, "Peaks per GPU",
          fmt::format(
              "GiB; steady: allocated between steps; first: peak of the first step; capacity {}",
              gibibytes(bytes_of(memory.capacity))),
          width) +
      text_table(memory.stages, row, columns).text(paint, width);
  const StageTimeline& most = fullest(memory);
  std::string parts;
  for (const StageTimeline::Outside& part : most.outside) {
    parts += fmt::format("{}{} {:.2f}", parts.empty() ? "" : ", ", part.what,
                         bytes_of(part.bytes) / (1 << 30));
  }
  if (!parts.empty()) {
    out += item(fmt::format("outside the allocator, stage {}: {}", most.stage, parts), width, 4);
  }
  return out;
}

std::string standing(const MemoryTimeline& memory, const Paint& paint, int width) {
  const StageTimeline& s = fullest(memory);
  if (s.at_peak.empty()) {
    return "";
  }
  const std::size_t shown = std::min(s.at_peak.size(), kMaxTensors);
  const std::vector<result::StandingTensor> largest(
      s.at_peak.begin(), s.at_peak.begin() + static_cast<std::ptrdiff_t>(shown));
  const auto row = [&](const result::StandingTensor& t) -> Record {
    const std::string label =
        t.part_of.empty() ? t.label : fmt::format("{} ({})", t.label, t.part_of);
    return {{"", t.total(), "total", Show::size},
            {"", bytes_of(t.total()) / bytes_of(s.allocated), "share", Show::percent},
            {"", t.count, "count", Show::count},
            {"", t.bytes, "each", Show::size},
            {"", t.from_before ? Value("before") : Value(t.since), "since", Show::duration},
            {"", to_string(t.category), "category"},
            {"", t.stream, "stream"},
            {"", label, "tensor"}};
  };
  const std::int64_t listed = std::accumulate(
      largest.begin(), largest.end(), std::int64_t{0},
      [](std::int64_t sum, const result::StandingTensor& t) { return sum + t.total(); });
  std::string out =
      heading(paint, fmt::format("Live tensors at the peak of stage {}", s.stage),
              memory.stages.size() > 1 ? "--stage N shows another stage" : "", width) +
      text_table(largest, row).text(paint, width);
  if (s.at_peak.size() > shown) {
    out += fmt::format("  and {} more: {}\n", s.at_peak.size() - shown,
                       data_size(bytes_of(s.allocated) - bytes_of(listed)));
  }
  return out;
}

}  // namespace

std::string terminal(const MemoryTimeline& memory, bool colour, int width) {
  width = std::max(width, kMinMemoryWidth);
  const Paint paint{colour};
  std::string out = opening(paint, conclusion(memory), memory.title, width);
  if (const std::string job = job_line(memory.job_json, memory.ranks); !job.empty()) {
    out += wrap(job, width, 0) + "\n";
  }
  if (memory.stages.empty()) {
    return out;
  }
  return out + verdict(memory, paint) + charts(memory, paint, width) + "\n" +
         peaks(memory, paint, width) + "\n" + standing(memory, paint, width);
}

}  // namespace stepcast::report
