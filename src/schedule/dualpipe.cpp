// DualPipe and DualPipeV (DeepSeek): micro-batches enter from both ends, and a forward of one
// direction runs beside a backward of the other, so that each hides the other's communication.
//
// DualPipe keeps two replicas of the model on its ranks, half of the micro-batches travel each way.
// DualPipeV is its half: the ranks hold a V of two chunks, and "the other direction" is the way
// back of the same micro-batches. With H ranks from an end to the turn, h the rank's distance from
// its end and F0, F1 the forwards of its own and the opposite direction, a rank runs
//   2(H-h-1) F0, (h+1) [F0 F1], (H-h-1) [I1 W F1], (n-2H+h+1) [F0&B1 F1&B0], (H-h-1) [B1 F1&B0],
//   (h+1) [B1 B0], of which the second half as I only, (H-h-1) [W I0], (h+1) W
// for n micro-batches a direction; & runs side by side, W takes the oldest weight gradient owed.
// The first pair at the turn is not overlapped. Idle: at most (H-1)(F&B + B - 3W), in a chunk's
// times. Live: 2H+1 chunks.
#include <fmt/format.h>

#include <array>
#include <deque>

#include "orders.h"

namespace stepcast::schedule {
namespace {

struct Half {
  int ranks;          // H
  int rank;           // h
  int micro_batches;  // n, a direction
  // Of direction 0 (the rank's own) and 1.
  std::array<int, 2> chunk;
  std::array<int, 2> first_micro_batch;
};

class Writer {
 public:
  explicit Writer(const Half& half) : half_(half) {
    slots_.reserve(5 * static_cast<std::size_t>(half.micro_batches));
  }

  void forward(int way, bool with_next = false) { add(Pass::forward, way, forwards_, with_next); }
  void backward(int way, bool only_input = false) {
    if (only_input) {
      owed_.push_back({Pass::weight_grad, slot(way, backwards_).micro_batch, half_.chunk[at(way)]});
    }
    add(only_input ? Pass::input_grad : Pass::backward, way, backwards_, false);
  }
  void pair(int forward_way, int backward_way) {
    forward(forward_way, true);
    backward(backward_way);
  }
  void weight() {
    slots_.push_back(owed_.front());
    owed_.pop_front();
  }
  std::vector<Slot> take() { return std::move(slots_); }

 private:
  static std::size_t at(int way) { return static_cast<std::size_t>(way); }
  Slot slot(int way, const std::array<int, 2>& done) const {
    return {Pass::forward, half_.first_micro_batch[at(way)] + done[at(way)], half_.chunk[at(way)]};
  }
  void add(Pass pass, int way, std::array<int, 2>& done, bool with_next) {
    Slot next = slot(way, done);
    next.pass = pass;
    next.with_next = with_next;
    slots_.push_back(next);
    ++done[at(way)];
  }

  Half half_;
  std::vector<Slot> slots_;
  std::array<int, 2> forwards_{}, backwards_{};
  std::deque<Slot> owed_;
};

std::vector<Slot> order_of(const Half& half) {
  Writer rank(half);
  const int to_turn = half.ranks - half.rank - 1;
  const int to_end = half.rank + 1;
  for (int i = 0; i < 2 * to_turn; ++i) {
    rank.forward(0);
  }
  for (int i = 0; i < to_end; ++i) {
    rank.forward(0);
    rank.forward(1);
  }
  for (int i = 0; i < to_turn; ++i) {
    rank.backward(1, true);
    rank.weight();
    rank.forward(1);
  }
  for (int i = 0; i < half.micro_batches - 2 * half.ranks + to_end; ++i) {
    if (i == 0 && to_turn == 0) {
      rank.forward(0);
      rank.backward(1);
    } else {
      rank.pair(0, 1);
    }
    rank.pair(1, 0);
  }
  for (int i = 0; i < to_turn; ++i) {
    rank.backward(1);
    rank.pair(1, 0);
  }
  // 2 (h+1) backwards; weight gradients are put off from the middle on.
  for (int i = 0; i < 2 * to_end; ++i) {
    rank.backward(i % 2 == 0 ? 1 : 0, i > half.rank);
  }
  for (int i = 0; i < to_turn; ++i) {
    rank.weight();
    rank.backward(0, true);
  }
  for (int i = 0; i < to_end; ++i) {
    rank.weight();
  }
  return rank.take();
}

}  // namespace

Made make_dualpipe(const Request& request) {
  const int p = request.stages;
  const int m = request.micro_batches;
  if (p % 2 != 0 || m % 2 != 0 || m < 2 * p) {
    return refuse(
        fmt::format("dualpipe needs an even number of stages and of micro-batches, at least two "
                    "micro-batches a stage; {} stages "
                    "and {} micro-batches are not",
                    p, m));
  }
  Order order;
  order.placement = Placement::bidirectional;
  for (int r = 0; r < p; ++r) {
    const int own = r < p / 2 ? 0 : 1;
    const std::array first{own * m / 2, (1 - own) * m / 2};
    order.ranks.push_back(
        order_of({p / 2, own == 0 ? r : p - 1 - r, m / 2, {own, 1 - own}, first}));
  }
  return order;
}

Made make_dualpipe_v(const Request& request) {
  const int p = request.stages;
  const int m = request.micro_batches;
  if (m < 2 * p) {
    return refuse(fmt::format(
        "dualpipe_v needs at least two micro-batches a stage; {} for {} stages are fewer", m, p));
  }
  Order order;
  order.placement = Placement::vee;
  for (int r = 0; r < p; ++r) {
    order.ranks.push_back(order_of({p, r, m, {0, 1}, {0, 0}}));
  }
  return order;
}

}  // namespace stepcast::schedule
