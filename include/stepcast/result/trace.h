// Result of `simulate trace`: where the time of profiled ranks went.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stepcast/base/quantity.h"

namespace stepcast::result {

// A time span of one device, divided: every moment counts under one of these, the first that applies. They add up to `span`.
struct TraceShare {
  Time span{0};
  Time compute{0};        // at least one kernel computes
  Time communication{0};  // exposed: communication and no kernel that computes
  Time copy{0};           // exposed: copies or memsets alone
  Time host_bound{0};     // idle, and what runs next was not launched yet
  Time idle{0};           // idle, although it was launched, or the trace does not say when
  Time overlapped{0};     // part of `compute`: communication runs beside it
};

// Kernels, copies or memsets of one kind: the sum of their durations, whatever runs beside them.
struct TraceKind {
  std::string kind;
  std::int64_t count = 0;
  Time time{0};
};

// Of a critical path, what is of one kind. The rows of a step add up to its span.
struct TracePath {
  std::string
      kind;  // "gemm", "all_reduce"; "host": it had not launched what comes next; "gap": launched, and not running yet
  std::int64_t count = 0;
  Time time{0};
  Time all{0};  // of the step's kernels of this kind, on the path or beside it; 0: of the host and gaps
};

struct TraceStream {
  std::int64_t device = 0, stream = 0;
  std::int64_t count = 0;
  Time time{0};
  std::vector<TraceKind> kinds;  // the longest first
};

// Kernels that compute, of one kind in one phase of a step.
struct TracePhase {
  std::string phase;  // "forward", "backward", "optimizer"; "step" where the trace does not tell the first two apart
  std::string kind;   // "gemm", "grouped_gemm", "attention", "memory_bound"; all of the optimizer's are "optimizer"
  std::int64_t count = 0;
  Time time{0};
  Time beside{0};  // part of `time`: while communication runs
};

// A step as the profiler marks it. What the host launched within it belongs to it; on the device it lasts from the first of
// that to the first of the next step.
struct TraceStep {
  std::string name;
  Time host{0};  // on the host
  TraceShare share;
  std::vector<TraceKind> kinds;
  std::vector<TracePhase> phases = {};
  std::vector<TracePath> path = {};  // the longest first
};

// Kernels of one name.
struct TraceKernel {
  std::string kind;
  std::string name;
  std::int64_t count = 0;
  Time time{0};
};

// Like events of one stream that follow each other closely, for a picture.
struct TraceRun {
  std::string kind;  // "products", "communication"
  Time from{0}, to{0};
  std::int64_t count = 0;
  std::string longest;  // its longest kernel
};

struct TraceTimeline {
  struct Row {
    std::int64_t stream = 0;
    std::vector<TraceRun> runs;
  };
  std::string step;  // "ProfilerStep#551", or "whole trace"
  Time from{0}, to{0};
  std::vector<Row> rows;
  std::vector<TraceRun> path;  // the critical path; its further kinds are "host" and "gap"
};

struct TraceDevice {
  std::int64_t device = 0;
  TraceShare share;              // from its first event to its last
  std::vector<TraceKind> kinds;  // the longest first
  std::vector<TraceStream> streams;
  std::vector<TraceStep> steps;
  std::vector<TracePhase> phases;         // of the whole trace where it marks no steps
  std::vector<TracePath> path;            // of all steps, or of the whole trace; the longest first
  std::vector<TraceKernel> path_kernels;  // its kernels by name; the longest first
  std::optional<TraceStep> outside;       // what belongs to no step
  std::optional<TraceTimeline> timeline;  // of the second step where there are several
};

// Communication of one operation in one group.
struct TraceCommunication {
  std::string operation;  // "all_reduce"
  std::string group;      // the process group, or "stream 27" where the trace states none
  int group_size = 0;     // 0: not known
  std::int64_t count = 0;
  Time time{0};
  Time exposed{0};                             // while no kernel computes
  Time beside_forward{0}, beside_backward{0};  // while kernels of that pass compute; both may
  std::int64_t bytes = 0;                      // of the larger of input and output; 0: not recorded
  // Of calls found in the profiles of other ranks too: the time until the last of these ranks arrived, and how many.
  std::int64_t compared = 0;
  Time waiting{0};
  Time compared_time{0};  // of these calls, waiting included
  // Of the steps that a comparison is made with: all but a trace's last, which ends with its own last kernel.
  std::int64_t step_count = 0, step_bytes = 0;
  Time step_time{0}, step_exposed{0};
};

// Calls of one collective in one group with equally many bytes.
struct TraceCollective {
  std::string operation;
  std::string group;
  std::vector<int> ranks;  // of the group; empty: not recorded whole
  int group_size = 0;
  std::int64_t bytes = 0;  // of a call: of the larger of input and output
  std::int64_t count = 0;
  Time time{0};
  // Of one call without waiting: of calls compared with other ranks, what the last to arrive took; otherwise what the
  // fastest quarter stays below, since short calls wait least.
  Time transfer{0};
  bool compared = false;
  std::optional<double> predicted;  // seconds of one call by the job's cluster
  double residual = 0;              // of the curve
  std::string how;                  // what was predicted: "ring simple"
  std::string why;                  // why nothing is predicted
};

// C[m, n] = A[m, k] B[k, n], `batch` times.
struct TraceProduct {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
};
struct TraceAttention {
  std::int64_t sequences = 0, length = 0, heads = 0, kv_heads = 0, head_dim = 0;
  bool causal = true;
  bool causal_known = false;  // otherwise assumed
  bool backward = false;
};

// Calls of one operator with the same shapes, and the kernels that they launched: products, or attention.
struct TraceOperator {
  std::string name;    // "aten::mm"
  std::string shapes;  // "4096x1024 1024x512"
  std::string dtype;   // "bf16"; "": not known
  std::string kernel;  // the longest of its kernels
  std::int64_t count = 0;
  std::int64_t step_count = 0;  // of the steps that a comparison is made with
  Time time{0};
  std::optional<TraceProduct> product;
  std::optional<TraceAttention> attention;
  std::optional<double> predicted;  // seconds of one call, from the calibration's curves
  double residual = 0;              // of these curves
  std::string why;                  // why nothing is predicted
};

// A time of one step, forecast and measured: "compute", "gemm", "all_gather".
struct TraceComparison {
  std::string what;
  Time forecast{0}, measured{0};
};

// A forecast beside a rank's steps.
struct TraceForecast {
  std::string title;                   // "llama-3-70b on 64 x dgx-h100"
  int stage = 0;                       // the pipeline stage of the forecast
  std::int64_t device = 0;             // of the trace
  int steps = 0;                       // of the trace, whose mean is compared; 0: it marks none and counts as one step
  double low = 0, high = 0;            // 90 % interval of the step, seconds
  std::vector<TraceComparison> step;   // the step and its parts (TraceShare), which add up to it
  std::vector<TraceComparison> kinds;  // sums of durations, whatever runs beside
};

// One cause of a difference between forecast and profile; those of a step add up to its whole difference.
struct TraceDifference {
  std::string phase;  // "forward", "communication", "host"
  std::string what;   // "gemm", "all_gather of 8"
  std::string cause;  // in words
  Time forecast{0}, measured{0};
  double forecast_count = 0, measured_count = 0;  // kernels or calls in a step
};

// Why a profiled rank's step differs from the forecast.
struct TraceExplanation {
  std::string file;
  int rank = -1, stage = 0, steps = 0;  // as in TraceRank and TraceForecast
  Time forecast{0}, measured{0};        // of the step
  double low = 0, high = 0;             // 90 % interval of the forecast step, seconds
  std::vector<TraceDifference> rows;    // the largest difference first
  std::vector<std::string> notes;
};

struct TraceRank {
  std::string file;
  int rank = -1, world_size = 0;  // -1, 0: not recorded
  std::string device;             // as the driver names it; "": not recorded
  std::string nccl_version;
  std::int64_t bytes = 0;    // of the file's text
  std::int64_t events = 0;   // of all kinds
  std::int64_t damaged = 0;  // places that could not be read
  std::string unit;          // of the file's times: "us" or "ns"
  std::vector<TraceDevice> devices;
  std::vector<TraceCommunication> communication;  // the longest first
  std::vector<TraceCollective> collectives;       // whose bytes are recorded; the longest first, or as operators
  std::vector<TraceKernel> kernels;               // the longest first
  std::vector<TraceOperator> operators;           // the longest first; priced, the largest difference first
  // Products and attention whose operator's shapes the trace does not have: the sum, and their kernels.
  Time without_shapes{0};
  std::vector<TraceKernel> kernels_without_shapes;
  std::optional<TraceForecast> forecast;
  std::vector<std::string> remarks;
};

struct TraceProfile {
  std::vector<TraceRank> ranks;  // in the order of the files
  std::string priced_device;     // whose curves predict kernels; "": none
  std::vector<std::string> notes;
};

}  // namespace stepcast::result
