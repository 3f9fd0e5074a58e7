// What a profile and a forecast have in common: kinds of kernels that both know, and the steps of a
// profile that are compared.
#pragma once

#include <string>

#include "links.h"
#include "stepcast/result/report.h"
#include "stepcast/result/trace.h"
#include "stepcast/trace/trace.h"
#include "sweep.h"
#include "tasks.h"

namespace stepcast::trace {

// A profile's kinds as a forecast tells them apart: all that memory bounds is one kind.
std::string compared_kind(Kind kind);

// The phase of a kernel of that kind. All that an optimizer computes is one kind of its own phase.
struct PhaseKind {
  std::string phase, kind;
  auto operator<=>(const PhaseKind&) const = default;
};
PhaseKind phase_kind(Phase phase, const std::string& compared);

// Of `steps` of a device, those that are compared: all but the last, which ends on the device with
// its own last kernel and not with the next step's first.
inline std::size_t compared_steps(std::size_t steps) { return steps > 1 ? steps - 1 : steps; }

// The device that computes longest; the rank has one.
const result::TraceDevice& busiest(const result::TraceRank& rank);

// The mean of a device's compared steps.
result::TraceShare mean_share(const result::TraceDevice& device);

// The kernels and the communication of a stage's rank in a forecast, as events of a device.
struct ForecastTask {
  Time from{0}, to{0};  // within the step
  const program::Slice* slice = nullptr;
  const program::Task* task = nullptr;
};
struct ForecastRank {
  std::uint32_t rank = 0;
  const program::Program* program = nullptr;
  std::vector<ForecastTask> tasks;  // split where they cross the step's end
  result::TraceShare share;         // of the step, without the host's part
  Covers covers;
};
// Nothing where the forecast has no such stage or no trace.
std::optional<ForecastRank> forecast_rank(const result::Report& report, int stage);

// What the forecast of a stage waits for its host, as far as it is idle.
Time host_of(const result::Report& report, int stage, Time idle);

}  // namespace stepcast::trace
