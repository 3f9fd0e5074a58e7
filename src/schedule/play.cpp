// Longest path through an order: each rank runs its slots one after another; a slot starts when its
// rank is free and the pass that it depends on has ended (plus `comm` when that ran on another
// rank):
//
//   F(stage) after F(stage - 1);  I(stage) after I(stage + 1) and F(stage);  W(stage) after
//   I(stage).
//
// B counts as I and W together. Ranks advance as far as they can; a finished pass wakes the ranks
// that may wait for it, so the cost is linear in the number of slots.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "orders.h"

namespace stepcast::schedule {
namespace {

constexpr double kNotYet = -1;

struct Ends {  // of one (stage, micro-batch); kNotYet until it has run
  double forward = kNotYet;
  double input_grad = kNotYet;
  double weight_grad = kNotYet;
};

class Player {
 public:
  Player(const Order& order, const Request& request, const Times& times)
      : order_(order),
        request_(request),
        times_(times),
        stages_(request.stages * request.chunks),
        ends_(static_cast<std::size_t>(stages_) * static_cast<std::size_t>(request.micro_batches)),
        cursor_(order.ranks.size()),
        free_at_(order.ranks.size()) {}

  std::variant<Played, Infeasible> run() {
    for (std::size_t rank = 0; rank < order_.ranks.size(); ++rank) {
      if (auto bad = check(static_cast<int>(rank))) {
        return *bad;
      }
    }
    for (int rank = request_.stages - 1; rank >= 0; --rank) {
      awake_.push_back(rank);
    }
    while (!awake_.empty()) {
      const int rank = awake_.back();
      awake_.pop_back();
      advance(rank);
    }
    for (std::size_t rank = 0; rank < order_.ranks.size(); ++rank) {
      if (cursor_[rank] < order_.ranks[rank].size()) {
        const Slot& slot = order_.ranks[rank][cursor_[rank]];
        return refuse(
            fmt::format("the schedule deadlocks: rank {} waits for ever before {} of micro-batch "
                        "{} in chunk {}",
                        rank, static_cast<char>(slot.pass), slot.micro_batch, slot.chunk));
      }
    }
    summarise();
    return std::move(played_);
  }

 private:
  int stage_of(int rank, int chunk) const { return chunk * request_.stages + rank; }
  Ends& ends(int stage, int micro_batch) {
    return ends_[static_cast<std::size_t>(stage) *
                     static_cast<std::size_t>(request_.micro_batches) +
                 static_cast<std::size_t>(micro_batch)];
  }

  // Each pass once: a forward, and either B or both of I and W.
  std::optional<Infeasible> check(int rank) const {
    constexpr unsigned kForward = 1, kInput = 2, kWeight = 4, kAll = 7;
    std::vector<unsigned> seen(static_cast<std::size_t>(request_.micro_batches) *
                               static_cast<std::size_t>(request_.chunks));
    for (const Slot& slot : order_.ranks[static_cast<std::size_t>(rank)]) {
      if (slot.micro_batch < 0 || slot.micro_batch >= request_.micro_batches || slot.chunk < 0 ||
          slot.chunk >= request_.chunks) {
        return refuse(fmt::format("rank {} runs micro-batch {} in chunk {}, outside the request",
                                  rank, slot.micro_batch, slot.chunk));
      }
      const unsigned bits = slot.pass == Pass::forward       ? kForward
                            : slot.pass == Pass::input_grad  ? kInput
                            : slot.pass == Pass::weight_grad ? kWeight
                                                             : kInput | kWeight;
      unsigned& of = seen[static_cast<std::size_t>(slot.micro_batch) *
                              static_cast<std::size_t>(request_.chunks) +
                          static_cast<std::size_t>(slot.chunk)];
      if ((of & bits) != 0) {
        return refuse(fmt::format("rank {} runs {} of micro-batch {} in chunk {} twice", rank,
                                  static_cast<char>(slot.pass), slot.micro_batch, slot.chunk));
      }
      of |= bits;
    }
    const auto missing =
        std::find_if(seen.begin(), seen.end(), [](unsigned s) { return s != kAll; });
    if (missing != seen.end()) {
      const auto at = static_cast<int>(missing - seen.begin());
      return refuse(fmt::format("rank {} never finishes micro-batch {} in chunk {}", rank,
                                at / request_.chunks, at % request_.chunks));
    }
    return std::nullopt;
  }

  // When the pass that `slot` waits for is done here, or kNotYet.
  double ready(int stage, const Slot& slot) {
    const double hop = request_.stages > 1 ? times_.comm : 0;
    const auto from = [hop](double end) { return end == kNotYet ? kNotYet : end + hop; };
    const Ends& here = ends(stage, slot.micro_batch);
    switch (slot.pass) {
      case Pass::forward:
        return stage == 0 ? 0 : from(ends(stage - 1, slot.micro_batch).forward);
      case Pass::weight_grad:
        return here.input_grad;
      case Pass::input_grad:
      case Pass::backward:
        if (here.forward == kNotYet || stage == stages_ - 1) {
          return here.forward;
        }
        return from(ends(stage + 1, slot.micro_batch).input_grad);
      case Pass::vocabulary:
      case Pass::vocabulary_grad:
        break;
    }
    return kNotYet;
  }

  double length(Pass pass) const {
    const double of_rank = pass == Pass::forward       ? times_.forward
                           : pass == Pass::input_grad  ? times_.input_grad
                           : pass == Pass::weight_grad ? times_.weight_grad
                                                       : times_.input_grad + times_.weight_grad;
    return of_rank / request_.chunks;
  }

  void advance(int rank) {
    const std::size_t r = static_cast<std::size_t>(rank);
    for (; cursor_[r] < order_.ranks[r].size(); ++cursor_[r]) {
      const Slot& slot = order_.ranks[r][cursor_[r]];
      const int stage = stage_of(rank, slot.chunk);
      const double at = ready(stage, slot);
      if (at == kNotYet) {
        return;
      }
      const double start = std::max(at, free_at_[r]);
      const double end = start + length(slot.pass);
      free_at_[r] = end;
      Ends& here = ends(stage, slot.micro_batch);
      int neighbour = -1;
      if (slot.pass == Pass::forward) {
        here.forward = end;
        neighbour = stage + 1;
      } else if (slot.pass == Pass::weight_grad) {
        here.weight_grad = end;
      } else {
        here.input_grad = end;
        here.weight_grad = slot.pass == Pass::backward ? end : kNotYet;
        neighbour = stage - 1;
      }
      if (neighbour >= 0 && neighbour < stages_ && neighbour % request_.stages != rank) {
        awake_.push_back(neighbour % request_.stages);
      }
      played_.tasks.push_back({rank, stage, slot.micro_batch, slot.pass, start, end});
    }
  }

  void summarise() {
    const std::size_t ranks = order_.ranks.size();
    std::vector<double> busy(ranks), first(ranks, 0), last(ranks, 0);
    std::vector<bool> begun(ranks);
    for (const Played::Task& task : played_.tasks) {
      const std::size_t r = static_cast<std::size_t>(task.rank);
      busy[r] += length(task.pass);
      first[r] = begun[r] ? std::min(first[r], task.start) : task.start;
      last[r] = std::max(last[r], task.end);
      begun[r] = true;
      played_.makespan = std::max(played_.makespan, task.end);
    }
    for (std::size_t r = 0; r < ranks; ++r) {
      // Sums of the same terms in another order: what is left below zero is rounding.
      played_.idle.push_back(std::max(0.0, played_.makespan - busy[r]));
      played_.idle_inside.push_back(std::max(0.0, last[r] - first[r] - busy[r]));
      const auto [until_w, until_i] = peaks(order_.ranks[r]);
      played_.peak_until_w.push_back(until_w);
      played_.peak_until_i.push_back(until_i);
    }
    std::stable_sort(played_.tasks.begin(), played_.tasks.end(),
                     [](const Played::Task& a, const Played::Task& b) {
                       return a.start != b.start ? a.start < b.start : a.rank < b.rank;
                     });
  }

  // A rank runs one pass at a time, so the peaks follow from its order alone.
  static std::pair<int, int> peaks(const std::vector<Slot>& slots) {
    int until_w = 0, until_i = 0, most_w = 0, most_i = 0;
    for (const Slot& slot : slots) {
      if (slot.pass == Pass::forward) {
        most_w = std::max(most_w, ++until_w);
        most_i = std::max(most_i, ++until_i);
      } else {
        until_w -= slot.pass != Pass::input_grad ? 1 : 0;
        until_i -= slot.pass != Pass::weight_grad ? 1 : 0;
      }
    }
    return {most_w, most_i};
  }

  const Order& order_;
  const Request& request_;
  const Times& times_;
  int stages_;  // global: ranks times chunks
  std::vector<Ends> ends_;
  std::vector<std::size_t> cursor_;
  std::vector<double> free_at_;
  std::vector<int> awake_;
  Played played_;
};

}  // namespace

std::variant<Played, Infeasible> play(const Order& order, const Request& request,
                                      const Times& times) {
  if (request.stages < 1 || request.micro_batches < 1 || request.chunks < 1 ||
      order.ranks.size() != static_cast<std::size_t>(request.stages)) {
    return refuse(fmt::format("an order of {} ranks does not belong to {} stages",
                              order.ranks.size(), request.stages));
  }
  for (const double t : {times.forward, times.input_grad, times.weight_grad, times.comm}) {
    if (!(t >= 0) || t > 1e300) {
      return refuse("pass and communication times must be finite and not negative");
    }
  }
  return Player(order, request, times).run();
}

}  // namespace stepcast::schedule
