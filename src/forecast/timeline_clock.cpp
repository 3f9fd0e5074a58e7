// Converts the host's clock, by which memory is allocated, to the GPU's.
#include <algorithm>

#include "stage_timeline.h"

namespace stepcast::forecast {

std::vector<Time> gpu_clock(const program::Program& program,
                            const std::vector<program::MemoryEvent>& trace,
                            const std::vector<program::Slice>& slices, program::RankId rank,
                            const memory::Replayed& replayed) {
  std::vector<Time> begins(program.tasks.size(), Time{0});
  Time end{0};
  for (const program::Slice& s : slices) {
    if (s.rank == rank) {
      begins[s.task] = s.begin;
      end = program.tasks[s.task].stream == 0 ? std::max(end, s.end) : end;
    }
  }
  std::vector<Time> of_trace;  // time of each event of the trace
  std::size_t first = 0;       // first event whose next compute task is not known yet
  std::size_t task = 0;
  const auto reach = [&](Time time) {
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
  // Tensors of a pass are placed between its begin and its end in proportion to the host's clock.
  std::vector<Time> out;
  Time latest = of_trace.empty() ? Time{0} : of_trace.front();
  for (const memory::TensorEvent& e : replayed.events) {
    const Time from = trace[e.trace].time;
    std::size_t next = e.trace;
    while (next + 1 < trace.size() && (trace[next].time < e.time || trace[next].time == from) &&
           e.time > from) {
      ++next;
    }
    const double share =
        e.time > from && trace[next].time > from
            ? std::min(1.0, static_cast<double>((e.time - from).count()) /
                                static_cast<double>((trace[next].time - from).count()))
            : 0;
    const Time at = of_trace[e.trace] +
                    Time(static_cast<std::int64_t>(
                        share * static_cast<double>((of_trace[next] - of_trace[e.trace]).count())));
    latest = std::max(latest, at);
    out.push_back(latest);
  }
  return out;
}

}  // namespace stepcast::forecast
