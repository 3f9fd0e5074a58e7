// From the host's clock, by which memory is allocated, to the GPU's.
#include <algorithm>

#include "stage_timeline.h"

namespace stepcast::forecast {

std::vector<std::int64_t> gpu_clock(const program::Program& program,
                                    const std::vector<program::MemoryEvent>& trace,
                                    const std::vector<program::Slice>& slices, program::RankId rank,
                                    const memory::Replayed& replayed) {
  std::vector<std::int64_t> begins(program.tasks.size(), 0);
  std::int64_t end = 0;
  for (const program::Slice& s : slices) {
    if (s.rank == rank) {
      begins[s.task] = s.begin;
      end = program.tasks[s.task].stream == 0 ? std::max(end, s.end) : end;
    }
  }
  std::vector<std::int64_t> of_trace;  // by event of the trace
  std::size_t first = 0;               // of of_trace that waits for the next compute task
  std::size_t task = 0;
  const auto reach = [&](std::int64_t time) {
    std::fill(of_trace.begin() + static_cast<std::ptrdiff_t>(first), of_trace.end(), time);
    first = of_trace.size();
  };
  for (const program::HostOp& op : program.host) {
    if (op.kind == program::HostKind::allocate || op.kind == program::HostKind::release) {
      of_trace.push_back(end);
    } else if (op.kind == program::HostKind::launch) {
      for (std::uint32_t k = 0; k < op.count; ++k, ++task) {
        if (program.tasks[task].stream == 0 && first < of_trace.size()) {
          reach(begins[task]);
        }
      }
    }
  }
  // Tensors of a pass lie between its begin and its end as they do on the host's clock.
  std::vector<std::int64_t> out;
  std::int64_t latest = of_trace.empty() ? 0 : of_trace.front();
  for (const memory::TensorEvent& e : replayed.events) {
    const std::int64_t from = trace[e.trace].time;
    std::size_t next = e.trace;
    while (next + 1 < trace.size() && (trace[next].time < e.time || trace[next].time == from) &&
           e.time > from) {
      ++next;
    }
    const double share = e.time > from && trace[next].time > from
                             ? std::min(1.0, static_cast<double>(e.time - from) /
                                                 static_cast<double>(trace[next].time - from))
                             : 0;
    const std::int64_t at =
        of_trace[e.trace] +
        static_cast<std::int64_t>(share * static_cast<double>(of_trace[next] - of_trace[e.trace]));
    latest = std::max(latest, at);
    out.push_back(latest);
  }
  return out;
}

}  // namespace stepcast::forecast
