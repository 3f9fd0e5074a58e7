// GPipe: all forwards, then all backwards, the youngest micro-batch first (torchgpipe's order,
// which autograd dictates), or the oldest first (PyTorch's ScheduleGPipe), with the same makespan
// and peak.
//
// Idle per rank with equal stages and free communication: (p-1)(F+B). Live micro-batches: m on
// every rank.
#include "orders.h"

namespace stepcast::schedule {

Made make_gpipe(const Request& request) {
  std::vector<Slot> slots;
  slots.reserve(2 * static_cast<std::size_t>(request.micro_batches));
  for (int i = 0; i < request.micro_batches; ++i) {
    slots.push_back({Pass::forward, i, 0});
  }
  for (int i = 0; i < request.micro_batches; ++i) {
    slots.push_back({Pass::backward, request.oldest_first ? i : request.micro_batches - 1 - i, 0});
  }
  return Order{std::vector(static_cast<std::size_t>(request.stages), slots)};
}

}  // namespace stepcast::schedule
