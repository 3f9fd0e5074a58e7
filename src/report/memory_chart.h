// A stage's memory over the step as rows of text: what stands in each column at its fullest moment.
#pragma once

#include <string>
#include <vector>

#include "bar.h"
#include "stepcast/result/memory.h"

namespace stepcast::report {

// Kinds of a chart from the bottom up: what stands all step long lies below. Indices into
// kMemoryKinds; kWaiting and kCached follow the categories.
struct ChartScale {
  double top = 0;  // bytes at the upper edge
  int rows = 8;
  int columns = 80;  // of the plot itself
};

// Rows from the top, an axis with the peak's mark, and the step's begin and end. Each line is
// indented by two and ends with a newline.
std::string memory_chart(const result::StageTimeline& stage, const ChartScale& scale,
                         const Paint& paint);

// Columns that the chart takes beside its plot.
constexpr int kChartMargin = 11;

// The kinds in the chart's order, with bytes that wait for another stream and cached ones above.
std::vector<BarKind> chart_kinds();
// Bytes of each of them in a sample.
std::vector<double> chart_parts(const result::MemorySample& sample);

}  // namespace stepcast::report
