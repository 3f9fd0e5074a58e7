// Automatic zero-bubble schedules (Qi et al., 2401.10241, section 3): an order found from the
// measured times of F, I and W, the time of a message and the memory allowed.
//
// All ranks are run side by side as list scheduling does: a free rank takes an input gradient or a
// forward when one has arrived (a forward only while memory and the warm-up's length allow it),
// else a weight gradient that it owes, else it waits. What a greedy choice cannot know is tried
// both ways: how far forwards may run ahead of input gradients, which of the two goes first, and
// whether a weight gradient may be begun that would keep an arrival waiting. The shortest step
// wins; of those as short within kAlike, the one whose ranks' own spans are the shortest, since
// steps without a global barrier follow each other at that distance. ZB-H1 and ZB-H2 are among the
// candidates where they fit into memory.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <queue>
#include <utility>

#include "orders.h"

namespace stepcast::schedule {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kAlike = 5e-3;  // of a step

struct Choice {
  double ahead;        // forwards ahead of input gradients, in stages to the last rank
  bool forward_first;  // when both have arrived
  bool weight_yields;  // wait for an arrival that is under way rather than begin a longer weight
                       // gradient
};

struct Found {
  Order order;
  double makespan = kNever;
  double span = kNever;  // the longest of the ranks' own
};

class Greedy {
 public:
  Greedy(const Request& request, double live, const Choice& choice)
      : request_(request),
        choice_(choice),
        live_(live),
        tolerance_(1e-9 * (request.forward + request.input_grad + request.weight_grad)),
        ranks_(static_cast<std::size_t>(request.stages)) {
    const std::size_t m = static_cast<std::size_t>(request.micro_batches);
    for (int r = 0; r < request.stages; ++r) {
      Rank& rank = at(r);
      rank.ahead = static_cast<int>(std::min(
          std::floor(live + 1e-9), std::floor(choice.ahead * (request.stages - 1 - r)) + 1));
      rank.forward_at.assign(m, r == 0 ? 0 : kNever);
      rank.input_at.assign(m, kNever);
      rank.slots.reserve(3 * m);
    }
  }

  Found run() {
    for (int r = 0; r < request_.stages; ++r) {
      wake_.emplace(0.0, r);
    }
    while (!wake_.empty()) {
      const auto [now, r] = wake_.top();
      wake_.pop();
      if (now + tolerance_ >= at(r).free_at) {
        decide(r, std::max(now, at(r).free_at));
      }
    }
    Found found;
    found.makespan = found.span = 0;
    for (Rank& rank : ranks_) {
      found.makespan = std::max(found.makespan, rank.free_at);
      found.span = std::max(found.span, rank.free_at - rank.begun_at);
      found.order.ranks.push_back(std::move(rank.slots));
    }
    return found;
  }

 private:
  struct Rank {
    int ahead = 1;
    int forwards = 0, inputs = 0, weights = 0;
    double free_at = 0;
    double begun_at = kNever;
    std::vector<double> forward_at, input_at;  // arrival by micro-batch
    std::vector<Slot> slots;
  };
  Rank& at(int r) { return ranks_[static_cast<std::size_t>(r)]; }

  void decide(int r, double now) {
    Rank& rank = at(r);
    const int m = request_.micro_batches;
    const double input =
        rank.inputs < m ? rank.input_at[static_cast<std::size_t>(rank.inputs)] : kNever;
    const double held =
        rank.forwards - rank.inputs + request_.weight_memory * (rank.inputs - rank.weights);
    const bool room =
        rank.forwards < m && held + 1 <= live_ + 1e-9 && rank.forwards - rank.inputs < rank.ahead;
    const double forward = room ? rank.forward_at[static_cast<std::size_t>(rank.forwards)] : kNever;
    const double soon = now + tolerance_;
    if (forward <= soon && (choice_.forward_first || input > soon)) {
      start(r, Pass::forward, now);
    } else if (input <= soon) {
      start(r, Pass::input_grad, now);
    } else if (rank.weights < rank.inputs) {
      if (choice_.weight_yields &&
          std::min(input, forward) < now + request_.weight_grad - tolerance_) {
        return;  // the arrival wakes this rank
      }
      start(r, Pass::weight_grad, now);
    }
  }

  void start(int r, Pass pass, double now) {
    Rank& rank = at(r);
    rank.begun_at = std::min(rank.begun_at, now);
    const bool last = r == request_.stages - 1;
    if (pass == Pass::forward) {
      const int i = rank.forwards++;
      rank.free_at = now + request_.forward;
      if (last) {
        rank.input_at[static_cast<std::size_t>(i)] = rank.free_at;
      } else {
        send(r + 1, at(r + 1).forward_at, i, rank.free_at);
      }
      rank.slots.push_back({pass, i});
    } else if (pass == Pass::input_grad) {
      const int i = rank.inputs++;
      rank.free_at = now + request_.input_grad;
      if (r > 0) {
        send(r - 1, at(r - 1).input_at, i, rank.free_at);
      }
      rank.slots.push_back({pass, i});
    } else {
      rank.free_at = now + request_.weight_grad;
      rank.slots.push_back({pass, rank.weights++});
    }
    wake_.emplace(rank.free_at, r);
  }

  void send(int to, std::vector<double>& arrivals, int micro_batch, double end) {
    arrivals[static_cast<std::size_t>(micro_batch)] = end + request_.comm;
    wake_.emplace(end + request_.comm, to);
  }

  const Request& request_;
  Choice choice_;
  double live_;  // micro-batches
  double tolerance_;
  std::vector<Rank> ranks_;
  using Wake = std::pair<double, int>;
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> wake_;
};

Found played(Made made, const Request& request) {
  Order order = std::get<Order>(std::move(made));
  const Spans spans = spans_of(
      order, request, {request.forward, request.input_grad, request.weight_grad, request.comm});
  return {std::move(order), spans.makespan, spans.longest};
}

// The place of the best; of equals the first.
std::size_t best_of(const std::vector<Found>& all) {
  double shortest = kNever;
  for (const Found& one : all) {
    shortest = std::min(shortest, one.makespan);
  }
  std::size_t best = all.size();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool alike = all[i].makespan <= shortest * (1 + kAlike);
    if (alike && (best == all.size() || all[i].span < all[best].span * (1 - 1e-9))) {
      best = i;
    }
  }
  return best;
}

}  // namespace

Made make_zb_auto(const Request& request) {
  const int p = request.stages;
  const double limit = request.memory_limit * p;
  for (const double time :
       {request.forward, request.input_grad, request.weight_grad, request.comm}) {
    if (!(time >= 0) || !std::isfinite(time)) {
      return refuse(
          "zb_auto needs times of its passes and messages that are finite and not negative");
    }
  }
  if (!(limit >= 1)) {
    return Infeasible{
        "parallelism.schedule.memory_limit",
        fmt::format(
            "{:g} peaks of 1F1B on {} stages hold no micro-batch: zb_auto needs at least {:.3g}",
            request.memory_limit, p, 1.0 / p)};
  }
  if (!(request.weight_memory >= 0 && request.weight_memory <= 1)) {
    return refuse(fmt::format("a weight gradient cannot hold {:g} of a micro-batch's activations",
                              request.weight_memory));
  }
  const double live = std::min<double>(limit, request.micro_batches);
  // Which choice is best shows on a few rounds of the pipeline; the order is then made for the
  // whole step.
  Request trial = request;
  trial.micro_batches = std::min(request.micro_batches, 3 * p);
  std::vector<Choice> choices;
  std::vector<Found> tried;
  for (const double ahead : {1.0, 1.5, 2.0, live}) {
    for (const bool forward_first : {false, true}) {
      for (const bool weight_yields : {false, true}) {
        choices.push_back({ahead, forward_first, weight_yields});
        tried.push_back(Greedy(trial, live, choices.back()).run());
      }
    }
  }
  std::vector<Found> candidates;
  candidates.push_back(Greedy(request, live, choices[best_of(tried)]).run());
  if (live + 1e-9 >= std::min(p, request.micro_batches)) {
    candidates.push_back(played(make_zb_h1(request), request));
  }
  if (live + 1e-9 >= std::min(2 * p - 1, request.micro_batches)) {
    candidates.push_back(played(make_zb_h2(request), request));
  }
  return std::move(candidates[best_of(candidates)].order);
}

}  // namespace stepcast::schedule
