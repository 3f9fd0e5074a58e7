// The handcrafted zero-bubble schedules ZB-H1 and ZB-H2 (Qi et al., 2401.10241): 1F1B with the
// backward split, so that weight gradients fill what would be idle time.
//
// Rank r runs k(p-1-r) forwards, then F I and, k r micro-batches late, W; at the end the W that are
// left. k = 1 (ZB-H1) keeps 1F1B's peak, p micro-batches, on every rank and idles (p-1)(F+I-W); k =
// 2 (ZB-H2) keeps 2p-1 and idles (p-1)(F+I-2W) inside a rank's own span. PyTorch's
// ScheduleInterleavedZeroBubble on one chunk is ZB-H1.
#include <algorithm>

#include "orders.h"

namespace stepcast::schedule {
namespace {

Order handcrafted(const Request& request, int k) {
  const int p = request.stages;
  const int m = request.micro_batches;
  Order order;
  order.ranks.reserve(static_cast<std::size_t>(p));
  for (int rank = 0; rank < p; ++rank) {
    std::vector<Slot> slots;
    slots.reserve(3 * static_cast<std::size_t>(m));
    int forward = 0;
    int weight = 0;
    const int warm_up = std::min(k * (p - 1 - rank), m);
    while (forward < warm_up) {
      slots.push_back({Pass::forward, forward++});
    }
    for (int backward = 0; backward < m; ++backward) {
      if (forward < m) {
        slots.push_back({Pass::forward, forward++});
      }
      slots.push_back({Pass::input_grad, backward});
      if (backward >= k * rank) {
        slots.push_back({Pass::weight_grad, weight++});
      }
    }
    while (weight < m) {
      slots.push_back({Pass::weight_grad, weight++});
    }
    order.ranks.push_back(std::move(slots));
  }
  return order;
}

}  // namespace

Made make_zb_h1(const Request& request) { return handcrafted(request, 1); }
Made make_zb_h2(const Request& request) { return handcrafted(request, 2); }

}  // namespace stepcast::schedule
