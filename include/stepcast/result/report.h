// The forecast of one job as a plain struct: what `report` writes and tests read. Fields follow the JSON report's keys.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stepcast/base/quantity.h"
#include "stepcast/base/spelling.h"
#include "stepcast/job/job.h"
#include "stepcast/program/program.h"
#include "stepcast/program/timeline.h"
#include "stepcast/result/estimate.h"
#include "stepcast/result/fit.h"

namespace stepcast::result {

struct StageBreakdown {
  int stage = 0;
  Time compute{0}, recompute{0}, slowdown{0};
  Time tensor{0}, pipeline{0}, data{0}, context{0}, expert{0}, offload{0}, other{0};  // exposed communication, by kind
  Time bubble{0}, host{0}, optimizer{0}, stall{0};
};

// The part of a breakdown that holds each category of time, in program::Category's order.
inline constexpr std::array<Time StageBreakdown::*, program::kCategories> kTimeParts = {
    &StageBreakdown::compute,  &StageBreakdown::recompute, &StageBreakdown::optimizer, &StageBreakdown::tensor,
    &StageBreakdown::pipeline, &StageBreakdown::data,      &StageBreakdown::context,   &StageBreakdown::expert,
    &StageBreakdown::offload,  &StageBreakdown::other,     &StageBreakdown::bubble,    &StageBreakdown::host,
    &StageBreakdown::stall,    &StageBreakdown::slowdown};

constexpr Time part_of(const StageBreakdown& b, program::Category category) {
  return b.*kTimeParts[static_cast<std::size_t>(category)];
}

struct StageMemory {
  int stage = 0;
  Bytes allocated, active, reserved, process;  // peaks
  Bytes steady;
  Bytes first_step_peak;
  Bytes parameters, gradients, optimizer, activations, communication, workspace, other;  // add up to `allocated`
  Time at{0};
  Bytes host, nvme;        // of one rank, outside GPU memory
  std::uint32_t rank = 0;  // rank of the simulated world whose memory this is
  // Relative standard deviations of the forecast, and what of that of `allocated` keys whose values are assumed add.
  double allocated_deviation = 0, reserved_deviation = 0, process_deviation = 0, open_deviation = 0;
};

// The part of a stage's memory that holds each category, in program::MemoryCategory's order.
inline constexpr std::array<Bytes StageMemory::*, program::kMemoryCategories> kMemoryParts = {
    &StageMemory::parameters,    &StageMemory::gradients, &StageMemory::optimizer, &StageMemory::activations,
    &StageMemory::communication, &StageMemory::workspace, &StageMemory::other};

constexpr Bytes part_of(const StageMemory& m, program::MemoryCategory category) {
  return m.*kMemoryParts[static_cast<std::size_t>(category)];
}

struct Traffic {
  std::string group;       // "tensor", "data"...
  std::string op;          // "all_gather ring simple"
  std::int64_t count = 0;  // per step, of all ranks of the busiest stage
  Bytes bytes;             // as NCCL counts them, per rank
  Time time{0};            // transfer time per rank
};

// What a doubt is about.
enum class DoubtKind {
  curve,    // time of kernels and copies alone
  overlap,  // time that kernels lose beside communication
  network,  // time of communication
  site,     // the site's own factors, from measured steps
  model,    // what the simulation leaves out
  run,      // from one run of a job to the next
  open,     // keys of the job whose values are assumed
};

constexpr auto spellings(DoubtKind) {
  return std::to_array<Spelling<DoubtKind>>({{DoubtKind::curve, "curve"},
                                             {DoubtKind::overlap, "overlap"},
                                             {DoubtKind::network, "network"},
                                             {DoubtKind::site, "site"},
                                             {DoubtKind::model, "model"},
                                             {DoubtKind::run, "run"},
                                             {DoubtKind::open, "open"}});
}

// A factor that is not known exactly. The doubts of a forecast make up its interval; they are independent of
// one another.
struct Doubt {
  std::string name;  // "gemm bf16 h100-sxm cublas"
  DoubtKind kind = DoubtKind::curve;
  std::string source;                                   // the file and provenance, or the rule
  double seconds = 0;                                   // part of the step that grows with the factor
  double deviation = 0;                                 // relative standard deviation of the factor
  double added() const { return seconds * deviation; }  // seconds that one deviation adds to the step
};

// Seconds of the critical path in tasks of one category; they add up to the step.
struct PathShare {
  std::string category;  // "compute", "tensor"...
  double seconds = 0;
};

// Seconds of the critical path that are predicted by one curve. The same second may depend on two (a kernel's, and
// that of its slow-down beside communication).
struct CurveShare {
  std::string name, file;
  double seconds = 0;
};

// What a curve rests on.
enum class Basis {
  measured,    // the device or the system itself
  of_kind,     // other systems of its kind: another node's NVLink, another cluster's network
  data_sheet,  // no measurement
};

constexpr auto spellings(Basis) {
  return std::to_array<Spelling<Basis>>(
      {{Basis::measured, "measured"}, {Basis::of_kind, "systems of its kind"}, {Basis::data_sheet, "data sheet"}});
}

struct CalibrationUse {
  std::string file, device, provenance;
  double residual = 0;
  Basis basis = Basis::measured;
  bool network = false;  // prices communication
  double share = 0;      // of the step's critical path
};

struct Advice {
  std::string change;  // "memory.recompute=full"
  Bytes peak;
  Time step_time{0};
  Fit fits;
};

struct EngineFacts {
  std::string fidelity;  // bound | folded | full
  std::int64_t ranks = 0, classes = 0, tasks = 0, events = 0;
  int steps = 0;
  bool periodic = true;
};

struct Report {
  std::string job_json;  // the resolved job, every default filled in (config writes it)
  std::string title;     // "llama-3-70b on 64 x dgx-h100"
  Estimate step_time, tokens_per_second_per_gpu, model_flops_per_gpu, mfu, hfu;
  double parameters = 0, active_parameters = 0;  // of the model; active: that a token uses
  double tokens = 0;                             // of a step
  double bubble_fraction = 0;
  std::vector<StageBreakdown> breakdown;
  Bytes capacity;  // usable, per GPU
  Fit fits;
  // It does not fit, but would with all layers recomputed, and the job lists memory.recompute as assumed: that it does not
  // fit is then a statement about the assumption alone.
  bool fits_recomputed = false;
  Bytes host_capacity, nvme_capacity;  // of a node; 0: not known
  Bytes host_used, nvme_used;          // on the node that uses most
  Estimate peak;                       // process memory, bytes
  std::vector<StageMemory> memory;
  std::vector<Traffic> traffic;
  std::vector<CalibrationUse> calibration;
  std::vector<PathShare> critical_path;  // longest first
  std::vector<CurveShare> curves;        // longest first
  std::vector<Doubt> doubts;             // of the step time, largest first
  std::vector<Advice> advice;
  std::vector<std::string> notes;  // assumptions that a reader should know
  EngineFacts engine;
  // For traces: programs and slices of the folded world, with one representative rank per stage.
  struct Trace {
    program::World world;
    program::Timeline timeline;
  };
  std::optional<Trace> trace;
};

}  // namespace stepcast::result
