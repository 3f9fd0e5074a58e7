// 1F1B (PipeDream-flush): rank r runs min(p-1-r, m) forwards, then pairs of a forward and a
// backward, then the backwards that are left. Megatron-LM and PyTorch's Schedule1F1B give this
// order.
//
// Idle per rank with equal stages and free communication: (p-1)(F+B). Live micro-batches: min(m,
// p-r). Alpa's overlap-friendly order (1f1b_overlap) warms up twice as long, so that messages have
// a pass's time to arrive: the same makespan, min(m, 2(p-r)-1) live.
#include <algorithm>

#include "orders.h"

namespace stepcast::schedule {
namespace {

Order one_f_one_b(const Request& request, int warm_up_per_stage) {
  Order order;
  order.ranks.reserve(static_cast<std::size_t>(request.stages));
  for (int rank = 0; rank < request.stages; ++rank) {
    const int warm_up =
        std::min(warm_up_per_stage * (request.stages - 1 - rank) + request.extra_warmup,
                 request.micro_batches);
    std::vector<Slot> slots;
    slots.reserve(2 * static_cast<std::size_t>(request.micro_batches));
    int backward = 0;
    for (int forward = 0; forward < request.micro_batches; ++forward) {
      slots.push_back({Pass::forward, forward, 0, request.pairs && forward >= warm_up});
      if (forward >= warm_up) {
        slots.push_back({Pass::backward, backward++, 0});
      }
    }
    while (backward < request.micro_batches) {
      slots.push_back({Pass::backward, backward++, 0});
    }
    order.ranks.push_back(std::move(slots));
  }
  return order;
}

}  // namespace

Made make_one_f_one_b(const Request& request) {
  return request.vocabulary.empty() ? one_f_one_b(request, 1)
                                    : make_one_f_one_b_vocabulary(request);
}

Made make_one_f_one_b_overlap(const Request& request) { return one_f_one_b(request, 2); }

}  // namespace stepcast::schedule
