// Chimera (Li and Hoefler, 2107.06925): two replicas of the model on the same ranks, one down and
// one up, half of the micro-batches through each. With F = B = 1 the 1F1B of either fits into the
// other's gaps: D micro-batches through D stages form a unit, and units follow each other every 2 D
// slots without idling (direct concatenation).
//
// Idle with F = B = 1: D - 2 slots a step; with B = 2F and one unit: 2 (D - 2) forwards. Live:
// D/2+1 to D micro-batches.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "orders.h"

namespace stepcast::schedule {

Made make_chimera(const Request& request) {
  const int p = request.stages;
  const int m = request.micro_batches;
  if (p % 2 != 0) {
    return refuse(fmt::format(
        "chimera runs two pipelines that meet half-way: it needs an even number of stages, not {}",
        p));
  }
  const int units = (m + p - 1) / p;
  const int last = m - (units - 1) * p;                     // micro-batches of the last unit
  const int down = (units - 1) * (p / 2) + (last + 1) / 2;  // that go down
  Order order;
  order.placement = Placement::bidirectional;
  for (int r = 0; r < p; ++r) {
    // A pass is known by the time slot that it starts in: no two share one.
    std::vector<std::optional<Slot>> at(static_cast<std::size_t>(2 * p * units + p));
    for (const int way : {0, 1}) {
      const int stage = way == 0 ? r : p - 1 - r;
      const int count = way == 0 ? down : m - down;
      for (int i = 0; i < count; ++i) {
        const int start = 2 * p * (i / (p / 2)) + 2 * (i % (p / 2));
        const int micro_batch = way == 0 ? i : down + i;
        at[static_cast<std::size_t>(start + stage)] = Slot{Pass::forward, micro_batch, way};
        at[static_cast<std::size_t>(start + 2 * p - 1 - stage)] =
            Slot{Pass::backward, micro_batch, way};
      }
    }
    std::vector<Slot> slots;
    slots.reserve(2 * static_cast<std::size_t>(m));
    for (const auto& slot : at) {
      if (slot) {
        slots.push_back(*slot);
      }
    }
    order.ranks.push_back(std::move(slots));
  }
  return order;
}

}  // namespace stepcast::schedule
