// ZB-V (Qi et al., 2405.15362) as PyTorch's ScheduleZBVZeroBubble orders it: two chunks per rank in
// a V, so that the rank that starts a micro-batch ends it too.
//
// With F = I = W no rank idles inside its own span and 2p half-stages are live everywhere: 1F1B's
// peak. The order is made for at least 2p-1 micro-batches; of fewer, the passes that do not exist
// are left out.
#include <algorithm>
#include <array>

#include "orders.h"

namespace stepcast::schedule {
namespace {

class Rank {
 public:
  Rank(int micro_batches, std::vector<Slot>& slots)
      : micro_batches_(micro_batches), slots_(&slots) {}

  void forward(int chunk) { add(Pass::forward, forward_[at(chunk)]++, chunk); }
  void input(int chunk) { add(Pass::input_grad, input_[at(chunk)]++, chunk); }
  void weight(int chunk) { add(Pass::weight_grad, weight_[at(chunk)]++, chunk); }
  int forwards(int chunk) const { return forward_[at(chunk)]; }
  bool owes_weight(int chunk) const { return weight_[at(chunk)] < input_[at(chunk)]; }

 private:
  static std::size_t at(int chunk) { return static_cast<std::size_t>(chunk); }
  void add(Pass pass, int micro_batch, int chunk) {
    if (micro_batch < micro_batches_) {
      slots_->push_back({pass, micro_batch, chunk});
    }
  }

  int micro_batches_;
  std::vector<Slot>* slots_;
  std::array<int, 2> forward_{}, input_{}, weight_{};
};

}  // namespace

Made make_zb_v(const Request& request) {
  const int p = request.stages;
  const int padded = std::max(request.micro_batches, 2 * p - 1);
  Order order;
  order.placement = Placement::vee;
  order.ranks.resize(static_cast<std::size_t>(p));
  for (int r = 0; r < p; ++r) {
    std::vector<Slot>& slots = order.ranks[static_cast<std::size_t>(r)];
    slots.reserve(6 * static_cast<std::size_t>(request.micro_batches));
    Rank rank(request.micro_batches, slots);
    for (int i = 0; i < 2 * (p - r) - 1; ++i) {
      rank.forward(0);
    }
    for (int i = 0; i < r; ++i) {
      rank.forward(1);
      rank.forward(0);
    }
    for (int i = 0; i < p - r; ++i) {
      rank.forward(1);
      rank.input(1);
      rank.weight(1);
    }
    while (rank.forwards(1) < rank.forwards(0) || rank.forwards(0) < padded) {
      if (rank.forwards(0) < padded) {
        rank.forward(0);
      }
      rank.input(0);
      rank.weight(0);
      rank.forward(1);
      rank.input(1);
      rank.weight(1);
    }
    for (int i = 0; i < r; ++i) {
      rank.input(0);
      rank.input(1);
    }
    for (int i = 0; i < p - r; ++i) {
      rank.input(0);
      rank.weight(0);
    }
    for (const int chunk : {1, 0}) {
      while (rank.owes_weight(chunk)) {
        rank.weight(chunk);
      }
    }
  }
  return order;
}

}  // namespace stepcast::schedule
