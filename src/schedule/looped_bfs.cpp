// Looped BFS (PyTorch's ScheduleLoopedBFS; breadth-first pipeline parallelism): every chunk in turn
// runs the forwards of all micro-batches; then the chunks in reverse run all backwards, the
// youngest micro-batch first.
//
// Idle per rank with equal stages and free communication: (p-1)(F+B)/v. Live chunks: m v on every
// rank.
#include <fmt/format.h>

#include "orders.h"

namespace stepcast::schedule {

Made make_looped_bfs(const Request& request) {
  std::vector<Slot> slots;
  slots.reserve(2 * static_cast<std::size_t>(request.micro_batches) *
                static_cast<std::size_t>(request.chunks));
  for (int chunk = 0; chunk < request.chunks; ++chunk) {
    for (int i = 0; i < request.micro_batches; ++i) {
      slots.push_back({Pass::forward, i, chunk});
    }
  }
  for (int chunk = request.chunks - 1; chunk >= 0; --chunk) {
    for (int i = request.micro_batches - 1; i >= 0; --i) {
      slots.push_back({Pass::backward, i, chunk});
    }
  }
  return Order{std::vector(static_cast<std::size_t>(request.stages), slots)};
}

Made make_circular(const Request& request) {
  if (request.chunks > 1 && request.micro_batches < request.stages) {
    return refuse(fmt::format(
        "circular needs at least as many micro-batches as stages to go round; {} for {} are fewer",
        request.micro_batches, request.stages));
  }
  return make_looped_bfs(request);
}

}  // namespace stepcast::schedule
