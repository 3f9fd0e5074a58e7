// A stage's memory over the step as rows of text. Each column shows the memory at the fullest
// moment of its time span.
#pragma once

#include <string>
#include <vector>

#include "../text/bar.h"
#include "stepcast/result/memory.h"

namespace stepcast::report {

// The stage whose GPUs are the fullest, the first among equals. `memory` has at least one.
const result::StageTimeline& fullest(const result::MemoryTimeline& memory);

// Kinds of a chart from the bottom up: memory that lives all step long is at the bottom. Indices
// into kMemoryKinds; kWaiting and kCached follow the categories.
struct ChartScale {
  double top = 0;  // bytes at the upper edge
  int rows = 8;
  int columns = 80;  // of the plot without its margin
};

// The rows from the top, an axis with a mark at the peak, and the step's begin and end. Each line
// is indented by two and ends with a newline.
std::string memory_chart(const result::StageTimeline& stage, const ChartScale& scale,
                         const Paint& paint);

// Columns that the chart takes beside its plot.
constexpr int kChartMargin = 11;

// The kinds in the chart's order; above them bytes that wait for another stream, and cached bytes.
std::vector<BarKind> chart_kinds();
// Bytes of each of them in a sample.
std::vector<double> chart_parts(const result::MemorySample& sample);

}  // namespace stepcast::report
