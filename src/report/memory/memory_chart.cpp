#include "memory_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "memory_kinds.h"

namespace stepcast::report {
namespace {

using program::MemoryCategory;
using result::MemorySample;

// From the bottom up: memory that lives all step long comes first, so that its edges are level.
constexpr std::array kOrder = {
    MemoryCategory::parameters,    MemoryCategory::optimizer, MemoryCategory::gradients,
    MemoryCategory::workspace,     MemoryCategory::other,     MemoryCategory::activations,
    MemoryCategory::communication,
};
static_assert(kOrder.size() == program::kMemoryCategories);

constexpr BarKind kWaiting{"waiting for a stream", "~", "38;5;130"};

// The fullest sample of each column; a column without samples continues the last one before it.
std::vector<const MemorySample*> columns_of(const result::StageTimeline& stage, int columns) {
  std::vector<const MemorySample*> out(static_cast<std::size_t>(columns), nullptr);
  const double begin = static_cast<double>(stage.samples.front().at.count());
  const double span = static_cast<double>(stage.samples.back().at.count()) - begin;
  const auto column_of = [&](const MemorySample& s) {
    const double share = span > 0 ? (static_cast<double>(s.at.count()) - begin) / span : 0;
    return std::clamp(static_cast<int>(share * columns), 0, columns - 1);
  };
  const MemorySample* before = &stage.samples.front();
  std::size_t next = 0;
  for (int c = 0; c < columns; ++c) {
    const MemorySample* most = before;
    for (; next < stage.samples.size() && column_of(stage.samples[next]) == c; ++next) {
      before = &stage.samples[next];
      most = before->allocated > most->allocated ? before : most;
    }
    out[static_cast<std::size_t>(c)] = most;
  }
  return out;
}

// Index into chart_kinds() of each row of a column, from the bottom; -1: free. Edges are rounded,
// as a bar's are.
std::vector<int> cells(const MemorySample& sample, const ChartScale& scale) {
  std::vector<int> out(static_cast<std::size_t>(scale.rows), -1);
  const std::vector<double> parts = chart_parts(sample);
  double sum = 0;
  int from = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    sum += parts[i];
    const int to =
        std::clamp(static_cast<int>(std::lround(sum / scale.top * scale.rows)), from, scale.rows);
    std::fill(out.begin() + from, out.begin() + to, static_cast<int>(i));
    from = to;
  }
  return out;
}

}  // namespace

const result::StageTimeline& fullest(const result::MemoryTimeline& memory) {
  return *std::max_element(memory.stages.begin(), memory.stages.end(),
                           [](const result::StageTimeline& a, const result::StageTimeline& b) {
                             return a.process < b.process;
                           });
}

std::vector<BarKind> chart_kinds() {
  std::vector<BarKind> out;
  for (const MemoryCategory c : kOrder) {
    out.push_back(kMemoryKinds[static_cast<std::size_t>(c)]);
  }
  out.push_back(kWaiting);
  out.push_back(kMemoryKinds[program::kMemoryCategories]);  // cached
  return out;
}

std::vector<double> chart_parts(const MemorySample& sample) {
  std::vector<double> out;
  for (const MemoryCategory c : kOrder) {
    out.push_back(static_cast<double>(sample.by_category[static_cast<std::size_t>(c)]));
  }
  out.push_back(static_cast<double>(std::max<std::int64_t>(0, sample.active - sample.allocated)));
  out.push_back(static_cast<double>(
      std::max<std::int64_t>(0, sample.reserved - std::max(sample.active, sample.allocated))));
  return out;
}

std::string memory_chart(const result::StageTimeline& stage, const ChartScale& scale,
                         const Paint& paint) {
  if (stage.samples.empty() || scale.top <= 0) {
    return "";
  }
  const std::vector<BarKind> kinds = chart_kinds();
  const auto filled = columns_of(stage, scale.columns);
  std::vector<std::vector<int>> plot;
  std::size_t peak = 0;
  for (std::size_t c = 0; c < filled.size(); ++c) {
    plot.push_back(cells(*filled[c], scale));
    peak = filled[c]->allocated > filled[peak]->allocated ? c : peak;
  }
  std::string out;
  for (int row = scale.rows - 1; row >= 0; --row) {
    // Every other edge has a label, including the upper one.
    const bool named = (scale.rows - 1 - row) % 2 == 0;
    out +=
        "  " + paint("2", pad_left(named ? gibibytes(scale.top * (row + 1) / scale.rows) : "", 7) +
                              (named ? " ┤" : " │"));
    std::string run;
    int kind = -1;
    const auto flush = [&] {
      out += kind < 0 ? run : paint(kinds[static_cast<std::size_t>(kind)].sgr, run);
      run.clear();
    };
    for (const auto& column : plot) {
      const int here = column[static_cast<std::size_t>(row)];
      if (here != kind) {
        flush();
        kind = here;
      }
      run += kind < 0 ? std::string_view(" ") : kinds[static_cast<std::size_t>(kind)].glyph;
    }
    flush();
    out.erase(out.find_last_not_of(' ') + 1);
    out += '\n';
  }
  std::string axis;
  for (std::size_t c = 0; c < filled.size(); ++c) {
    axis += c == peak ? "▲" : "─";
  }
  return out + "  " + paint("2", pad_left("0.0", 7) + " └" + axis) + "\n";
}

}  // namespace stepcast::report
