#include "order_times.h"

#include <algorithm>

#include "stepcast/base/diagnostics.h"

namespace stepcast::lower {
namespace {

using schedule::Pass;
using schedule::Placement;
using schedule::Slot;

constexpr double kNotYet = -1;

class Player {
 public:
  Player(const strategy::Plan& plan, const PassTime& time)
      : plan_(plan), order_(plan.order), time_(time), p_(plan.grid.pipeline) {
    const auto ranks = static_cast<std::size_t>(p_);
    const int chunks = static_cast<int>(plan.stages.front().size());
    twice_ = order_.placement == Placement::bidirectional;
    stages_ = twice_ ? p_ : p_ * chunks;
    const auto all = static_cast<std::size_t>(stages_ * plan.micro_batches);
    forward_.assign(all, kNotYet);
    backward_.assign(all, kNotYet);
    softmax_.assign(static_cast<std::size_t>(plan.micro_batches), {});
    gradient_ = softmax_;
    cursor_.assign(ranks, 0);
    free_.assign(ranks, 0);
    out_.start.resize(ranks);
    out_.end.resize(ranks);
  }

  OrderTimes run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < p_; ++rank) {
        while (step(rank)) {
          moved = true;
        }
      }
    }
    for (int rank = 0; rank < p_; ++rank) {
      STEPCAST_CHECK(cursor_[rank] == order_.ranks[rank].size(), "a plan's order deadlocks");
      double busy = 0;
      for (const Slot& s : order_.ranks[rank]) {
        busy += time_(rank, s.chunk, s.pass);
      }
      out_.period = std::max(out_.period, busy / plan_.micro_batches);
    }
    return std::move(out_);
  }

 private:
  struct Gathered {
    int ranks = 0;
    double when = 0;
    double of(int all) const { return ranks == all ? when : kNotYet; }
    void add(double end) {
      ++ranks;
      when = std::max(when, end);
    }
  };

  int stage(int rank, const Slot& s) const {
    return s.chunk < static_cast<int>(plan_.stages[rank].size()) ? plan_.stages[rank][s.chunk].stage
                                                                 : 0;
  }
  std::size_t at(int stage, int micro_batch) const {
    return static_cast<std::size_t>(stage * plan_.micro_batches + micro_batch);
  }

  double ready(int rank, const Slot& s) const {
    const int here = stage(rank, s);
    const int m = s.micro_batch;
    const double made = forward_[at(stages_ - 1, m)];
    switch (s.pass) {
      case Pass::forward:
        return here == 0 ? 0 : forward_[at(here - 1, m)];
      case Pass::weight_grad:
        return backward_[at(here, m)];
      case Pass::vocabulary:
        return made;
      case Pass::vocabulary_grad:
        return softmax_[static_cast<std::size_t>(m)].of(p_);
      default:
        break;
    }
    if (here + 1 < stages_) {
      return backward_[at(here + 1, m)];
    }
    const auto& awaited = order_.barriers == 2 ? gradient_ : softmax_;
    return order_.barriers == 0 ? made : awaited[static_cast<std::size_t>(m)].of(p_);
  }

  bool step(int rank) {
    const auto& slots = order_.ranks[rank];
    std::size_t& next = cursor_[rank];
    if (next == slots.size()) {
      return false;
    }
    const std::size_t count = slots[next].with_next && next + 1 < slots.size() ? 2 : 1;
    double start = free_[rank];
    double took = 0;
    for (std::size_t i = next; i < next + count; ++i) {
      const double when = ready(rank, slots[i]);
      if (when == kNotYet) {
        return false;
      }
      start = std::max(start, when);
      took += time_(rank, slots[i].chunk, slots[i].pass);
    }
    const double end = start + took;
    free_[rank] = end;
    for (std::size_t i = next; i < next + count; ++i) {
      const Slot& s = slots[i];
      out_.start[rank].push_back(start);
      out_.end[rank].push_back(end);
      if (s.pass == Pass::forward) {
        forward_[at(stage(rank, s), s.micro_batch)] = end;
      } else if (s.pass == Pass::vocabulary) {
        softmax_[static_cast<std::size_t>(s.micro_batch)].add(end);
      } else if (s.pass == Pass::vocabulary_grad) {
        gradient_[static_cast<std::size_t>(s.micro_batch)].add(end);
      } else if (s.pass != Pass::weight_grad) {
        backward_[at(stage(rank, s), s.micro_batch)] = end;
      }
    }
    next += count;
    return true;
  }

  const strategy::Plan& plan_;
  const schedule::Order& order_;
  const PassTime& time_;
  int p_;
  int stages_ = 1;
  bool twice_ = false;
  std::vector<double> forward_, backward_;  // ends, by stage and micro-batch
  std::vector<Gathered> softmax_, gradient_;
  std::vector<std::size_t> cursor_;
  std::vector<double> free_;
  OrderTimes out_;
};

}  // namespace

OrderTimes order_times(const strategy::Plan& plan, const PassTime& time) {
  return Player(plan, time).run();
}

}  // namespace stepcast::lower
