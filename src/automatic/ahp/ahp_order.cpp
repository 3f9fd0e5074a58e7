#include "ahp_order.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <utility>

#include "../infinity.h"

namespace stepcast::automatic {
namespace {

using schedule::Pass;

// Memory is counted in fractions of a micro-batch, and their sums are exact up to this.
constexpr double kRounding = 1e-9;

struct Choice {
  // Forward passes that run ahead of input gradients, per stage between this one and the last.
  double ahead = 1;
  bool forward_first = false;  // which pass runs first if both are ready
  bool weight_yields = false;  // a weight gradient waits if a message is on its way
};

class List {
 public:
  List(const OrderProblem& p, const Choice& choice)
      : p_(p), choice_(choice), ranks_(p.stages.size()) {
    const auto m = static_cast<std::size_t>(p.micro_batches);
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      Rank& rank = ranks_[r];
      rank.forward_at.assign(m, r == 0 ? 0 : kInfinity);
      rank.input_at.assign(m, kInfinity);
      const double far = static_cast<double>(ranks_.size() - 1 - r);
      rank.ahead = std::max(1.0, std::floor(choice.ahead * far) + 1);
    }
  }

  MadeOrder run() {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      wake_.push({0, r});
    }
    while (!wake_.empty()) {
      const auto [now, r] = wake_.top();
      wake_.pop();
      if (ranks_[r].free <= now) {
        decide(r, now);
      }
    }
    MadeOrder out;
    for (Rank& rank : ranks_) {
      out.makespan = std::max(out.makespan, rank.free);
      out.order.ranks.push_back(std::move(rank.slots));
      out.peak.push_back(rank.peak);
    }
    out.order.chunks = 1;
    return out;
  }

 private:
  struct Rank {
    std::vector<double> forward_at,
        input_at;  // when a micro-batch's input or output gradient arrives
    std::size_t forwards = 0, inputs = 0, weights = 0;  // number of passes completed
    double free = 0, live = 0, peak = 0, ahead = 1;
    std::vector<schedule::Slot> slots;
  };

  void start(std::size_t r, Pass pass, std::size_t b, double now, double time) {
    Rank& rank = ranks_[r];
    rank.slots.push_back({pass, static_cast<int>(b), 0, false});
    rank.free = now + time;
    wake_.push({rank.free, r});
    const double arrives = rank.free + p_.comm;
    if (pass == Pass::forward) {
      ++rank.forwards;
      rank.live += 1;
      rank.peak = std::max(rank.peak, rank.live);
      if (r + 1 < ranks_.size()) {
        ranks_[r + 1].forward_at[b] = arrives;
        wake_.push({arrives, r + 1});
      } else {
        rank.input_at[b] = rank.free;
      }
      return;
    }
    if (pass == Pass::weight_grad) {
      ++rank.weights;
      rank.live -= p_.weight_memory;
      return;
    }
    ++rank.inputs;
    rank.live -= pass == Pass::backward ? 1 : 1 - p_.weight_memory;
    rank.weights += pass == Pass::backward ? 1 : 0;
    if (r > 0) {
      ranks_[r - 1].input_at[b] = arrives;
      wake_.push({arrives, r - 1});
    }
  }

  void decide(std::size_t r, double now) {
    Rank& rank = ranks_[r];
    const PassTimes& t = p_.stages[r];
    const auto m = static_cast<std::size_t>(p_.micro_batches);
    const double forward_at = rank.forwards < m ? rank.forward_at[rank.forwards] : kInfinity;
    const double input_at = rank.inputs < rank.forwards ? rank.input_at[rank.inputs] : kInfinity;
    const bool room = rank.live + 1 <= p_.live[r] + kRounding;
    const bool near = static_cast<double>(rank.forwards - rank.inputs) < rank.ahead;
    const bool forward = forward_at <= now && room && near;
    const bool input = input_at <= now;
    const bool weight = rank.weights < rank.inputs;
    // If there is no memory for a forward pass, pending gradients free some.
    if (input && !(forward && choice_.forward_first)) {
      start(r, p_.splits_backward ? Pass::input_grad : Pass::backward, rank.inputs, now,
            p_.splits_backward ? t.input_grad : t.input_grad + t.weight_grad);
    } else if (forward) {
      start(r, Pass::forward, rank.forwards, now, t.forward);
    } else if (weight) {
      const double arrival = std::min(room && near ? forward_at : kInfinity, input_at);
      if (choice_.weight_yields && arrival < now + t.weight_grad) {
        return;  // the arrival starts the rank again
      }
      start(r, Pass::weight_grad, rank.weights, now, t.weight_grad);
    }
  }

  const OrderProblem& p_;
  Choice choice_;
  std::vector<Rank> ranks_;
  using Wake = std::pair<double, std::size_t>;
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> wake_;
};

}  // namespace

MadeOrder make_order(const OrderProblem& problem) {
  MadeOrder best;
  best.makespan = kInfinity;
  for (const double ahead : {1.0, 1.5, 2.0, 1e9}) {
    for (const bool forward_first : {false, true}) {
      for (const bool weight_yields : {false, true}) {
        MadeOrder made = List(problem, {ahead, forward_first, weight_yields}).run();
        if (made.makespan < best.makespan * (1 - kRounding)) {
          best = std::move(made);
        }
      }
    }
  }
  return best;
}

}  // namespace stepcast::automatic
