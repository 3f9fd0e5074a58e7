// The host runs ahead of the device until a sync that does not hold. At the end of a step it goes
// on with the next, but never more than one step ahead: step h is not begun before the compute
// stream has completed step h - 2. (The depth of the device's launch queue, 1024 kernels under
// CUDA, holds back allocator traces alone, History::memory: no task waits for it.)
#include <algorithm>

#include "machine.h"

namespace stepcast::engine {

void Machine::advance_host(RankState& r, Time now) {
  const std::vector<Segment>& segments = r.program->segments;
  for (;;) {
    if (r.host_waits) {
      StreamState& on = streams_[r.first_stream + r.host_stream];
      if (on.completed < r.host_need) {
        on.watched_by(kHostBit, r.host_need);
        return;
      }
      r.clock = std::max(r.clock, now);
      r.host_waits = false;
    }
    if (r.host_step >= host_limit_) {
      return;
    }
    const Segment& g = segments[r.host_segment];
    bases_[r.first_base + (r.host_step % kBaseSteps) * segments.size() + r.host_segment] = r.clock;
    r.clock = std::min(r.clock + g.length, kEndOfTime);
    ++r.issued;
    r.examine |= r.host_blocked;
    r.host_blocked = 0;
    r.host_waits = true;
    if (g.step_end) {
      r.host_stream = 0;
      r.host_need = r.host_step * streams_[r.first_stream].count;
      r.host_segment = 0;
      ++r.host_step;
    } else {
      r.host_stream = g.wait.stream;
      r.host_need = need(r, r.host_step, g.wait);
      ++r.host_segment;
    }
  }
}

bool Machine::segment_base(std::uint32_t rank, std::uint32_t step, std::uint32_t segment,
                           Time& base) const {
  const RankState& r = ranks_[rank];
  const std::uint64_t n = r.program->segments.size();
  const std::uint64_t which = std::uint64_t{step} * n + segment;
  if (which >= r.issued || which + kHostSteps * n < r.issued + 1) {
    return false;
  }
  base = bases_[r.first_base + (step % kBaseSteps) * n + segment];
  return true;
}

Time Machine::issued_at(std::uint32_t rank, std::uint32_t step, const CompiledTask& t) const {
  const RankState& r = ranks_[rank];
  const std::uint64_t n = r.program->segments.size();
  const std::uint64_t which = std::uint64_t{step} * n + t.segment;
  if (which >= r.issued || which + kBaseSteps * n < r.issued) {
    return Time{0};
  }
  return bases_[r.first_base + (step % kBaseSteps) * n + t.segment] + t.issue_offset;
}

}  // namespace stepcast::engine
