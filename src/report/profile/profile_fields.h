// The fields of a profile of traces, for JSON, text and page.
#pragma once

#include "../record/tables.h"
#include "../record/value.h"
#include "stepcast/result/trace.h"

namespace stepcast::report {

Record share_fields(const result::TraceShare& share);
Record step_fields(const result::TraceStep& step);
// `span`: of the device, of which the time of a kind is a share.
Record trace_kind_fields(const result::TraceKind& kind, Time span);
// `span`: of the path.
Record trace_path_fields(const result::TracePath& row, Time span);
Record trace_stream_fields(const result::TraceStream& stream, Time span);
Record trace_communication_fields(const result::TraceCommunication& row);
Record trace_collective_fields(const result::TraceCollective& row);
Record trace_kernel_fields(const result::TraceKernel& kernel, Time whole);
Record trace_operator_fields(const result::TraceOperator& op);

Record trace_comparison_fields(const result::TraceComparison& row);

// Why a profiled step differs from its forecast.
std::string trace_explanation_text(const result::TraceExplanation& e, const Paint& paint,
                                   int width);
Value trace_explanation_value(const result::TraceExplanation& e);

// "rank 0 of 16", or the file's name where the trace states no rank.
std::string rank_title(const result::TraceRank& rank);
// "NVIDIA A100, 108,936 events, 25.8 MB of text".
std::string rank_remark(const result::TraceRank& rank);
// The time of all kernels of a rank.
Time kernel_time(const result::TraceRank& rank);

// The length of a critical path.
Time path_length(const std::vector<result::TracePath>& path);

// Of a rank's products and attention: those whose operator is known, those that a curve predicts,
// and what it predicts.
struct PricedSums {
  Time known{0}, priced{0};
  double predicted = 0;  // seconds
};
PricedSums priced_sums(const result::TraceRank& rank);

}  // namespace stepcast::report
