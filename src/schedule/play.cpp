// Longest path through an order: each rank runs its slots one after another; a slot starts when its
// rank is free and the pass that it depends on has ended (plus `comm` when that ran on another
// rank):
//
//   F(stage) after F(stage - 1);  I(stage) after I(stage + 1) and F(stage);  W(stage) after
//   I(stage);  S, T and the last stage's I as Order::barriers says.
//
// B counts as I and W together. Two slots that run side by side start and end as one. Ranks advance
// as far as they can; a finished pass wakes the ranks that may wait for it, so the cost is linear
// in the number of slots.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "orders.h"

namespace stepcast::schedule {

int stage_of(Placement placement, int stages, int rank, int chunk) {
  switch (placement) {
    case Placement::loop:
      return chunk * stages + rank;
    case Placement::vee:
      return chunk % 2 == 0 ? chunk * stages + rank : (chunk + 1) * stages - 1 - rank;
    case Placement::bidirectional:
      return chunk == 0 ? rank : stages - 1 - rank;
  }
  return rank;
}

int rank_of(Placement placement, int stages, int stage, int chunk) {
  switch (placement) {
    case Placement::loop:
      return stage % stages;
    case Placement::vee:
      return (stage / stages) % 2 == 0 ? stage % stages : stages - 1 - stage % stages;
    case Placement::bidirectional:
      return chunk == 0 ? stage : stages - 1 - stage;
  }
  return stage;
}

namespace {

constexpr double kNotYet = -1;

struct Ends {  // of one (stage, micro-batch); kNotYet until it has run
  double forward = kNotYet;
  double input_grad = kNotYet;
};

struct Barrier {  // of one micro-batch: passes of all ranks
  int ran = 0;
  double last = 0;
};

class Player {
 public:
  Player(const Order& order, const Request& request, const Times& times, bool keep_tasks = true)
      : order_(order),
        keep_tasks_(keep_tasks),
        p_(request.stages),
        m_(request.micro_batches),
        chunks_(order.chunks > 0 ? order.chunks : request.chunks),
        both_(order.placement == Placement::bidirectional),
        stages_(both_ ? p_ : p_ * chunks_),
        times_(times),
        ends_(static_cast<std::size_t>(stages_) * static_cast<std::size_t>(m_)),
        outputs_(order.barriers > 0 ? static_cast<std::size_t>(m_) : 0),
        weights_(order.barriers > 0 ? static_cast<std::size_t>(m_) : 0),
        cursor_(order.ranks.size()),
        free_at_(order.ranks.size()),
        begun_at_(order.ranks.size(), kNotYet),
        busy_(order.ranks.size()) {}

  // What is wrong with the order, if anything; else it has been played.
  std::optional<Wrong> run() {
    if (auto bad = check()) {
      return bad;
    }
    for (int rank = p_ - 1; rank >= 0; --rank) {
      awake_.push_back(rank);
    }
    while (!awake_.empty()) {
      const int rank = awake_.back();
      awake_.pop_back();
      advance(rank);
    }
    for (std::size_t rank = 0; rank < order_.ranks.size(); ++rank) {
      if (cursor_[rank] < order_.ranks[rank].size()) {
        return Wrong{fmt::format("the schedule deadlocks: rank {} waits for ever before {}", rank,
                                 name(order_.ranks[rank][cursor_[rank]])),
                     static_cast<int>(rank), cursor_[rank]};
      }
    }
    return std::nullopt;
  }

  Played result() {
    summarise();
    return std::move(played_);
  }

  Spans spans() const {
    Spans found;
    for (std::size_t r = 0; r < free_at_.size(); ++r) {
      found.makespan = std::max(found.makespan, free_at_[r]);
      found.longest = std::max(found.longest, free_at_[r] - begun_at_[r]);
    }
    return found;
  }

 private:
  static std::string name(const Slot& slot) {
    return fmt::format("{} of micro-batch {} in chunk {}", static_cast<char>(slot.pass),
                       slot.micro_batch, slot.chunk);
  }
  static bool of_vocabulary(Pass pass) {
    return pass == Pass::vocabulary || pass == Pass::vocabulary_grad;
  }
  int stage(int rank, const Slot& slot) const {
    return stage_of(order_.placement, p_, rank, slot.chunk);
  }
  std::size_t index(int stage, int micro_batch) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(m_) +
           static_cast<std::size_t>(micro_batch);
  }
  Ends& ends(int stage, int micro_batch) { return ends_[index(stage, micro_batch)]; }

  // Each pass of a stage once: a forward, and either B or both of I and W; S and T once a rank.
  std::optional<Wrong> check() const {
    constexpr unsigned kForward = 1, kInput = 2, kWeight = 4, kAll = 7, kOutput = 8,
                       kOutputGrad = 16, kVocabulary = 24;
    std::vector<unsigned> seen(ends_.size());
    for (int rank = 0; rank < p_; ++rank) {
      const auto& slots = order_.ranks[static_cast<std::size_t>(rank)];
      std::vector<unsigned> own(order_.barriers > 0 ? static_cast<std::size_t>(m_) : 0);
      for (std::size_t at = 0; at < slots.size(); ++at) {
        const Slot& slot = slots[at];
        const auto wrong = [&](std::string reason) { return Wrong{std::move(reason), rank, at}; };
        if (slot.micro_batch < 0 || slot.micro_batch >= m_ || slot.chunk < 0 ||
            slot.chunk >= chunks_) {
          return wrong(fmt::format("rank {} runs micro-batch {} in chunk {}, outside the request",
                                   rank, slot.micro_batch, slot.chunk));
        }
        if (of_vocabulary(slot.pass) && own.empty()) {
          return wrong(fmt::format("rank {} runs {}, but the order has no vocabulary barriers",
                                   rank, name(slot)));
        }
        if (slot.with_next && !pairs(slots, at)) {
          return wrong(
              fmt::format("rank {} runs {} beside no pass that could be", rank, name(slot)));
        }
        const unsigned bits = slot.pass == Pass::forward           ? kForward
                              : slot.pass == Pass::input_grad      ? kInput
                              : slot.pass == Pass::weight_grad     ? kWeight
                              : slot.pass == Pass::vocabulary      ? kOutput
                              : slot.pass == Pass::vocabulary_grad ? kOutputGrad
                                                                   : kInput | kWeight;
        unsigned& of = of_vocabulary(slot.pass) ? own[static_cast<std::size_t>(slot.micro_batch)]
                                                : seen[index(stage(rank, slot), slot.micro_batch)];
        if ((of & bits) != 0) {
          return wrong(fmt::format("rank {} runs {} twice", rank, name(slot)));
        }
        of |= bits;
      }
      if (const auto missing =
              std::find_if(own.begin(), own.end(), [](unsigned s) { return s != kVocabulary; });
          missing != own.end()) {
        return Wrong{fmt::format("rank {} never runs S and T of micro-batch {}", rank,
                                 missing - own.begin()),
                     rank, slots.size()};
      }
    }
    if (const auto missing =
            std::find_if(seen.begin(), seen.end(), [](unsigned s) { return s != kAll; });
        missing != seen.end()) {
      const auto at = static_cast<int>(missing - seen.begin());
      const int stage = at / m_;
      const int chunk = both_ ? 0 : stage / p_;
      return Wrong{both_
                       ? fmt::format("no rank finishes micro-batch {} of stage {}", at % m_, stage)
                       : fmt::format("rank {} never finishes micro-batch {} in chunk {}",
                                     rank_of(order_.placement, p_, stage, chunk), at % m_, chunk)};
    }
    return std::nullopt;
  }

  // A forward and a backward of another micro-batch or chunk, or the other way round.
  static bool pairs(const std::vector<Slot>& slots, std::size_t at) {
    if (at + 1 >= slots.size()) {
      return false;
    }
    const Slot &one = slots[at], &other = slots[at + 1];
    const auto back = [](Pass pass) { return pass == Pass::backward || pass == Pass::input_grad; };
    return !other.with_next &&
           ((one.pass == Pass::forward && back(other.pass)) ||
            (back(one.pass) && other.pass == Pass::forward)) &&
           (one.micro_batch != other.micro_batch || one.chunk != other.chunk);
  }

  double hop(int from, int to) const { return from == to ? 0 : times_.comm; }

  // When all ranks' passes at a barrier are done here, or kNotYet.
  double after(const std::vector<Barrier>& barriers, int micro_batch) const {
    const Barrier& barrier = barriers[static_cast<std::size_t>(micro_batch)];
    return barrier.ran < p_ ? kNotYet : barrier.last + (p_ > 1 ? times_.comm : 0);
  }

  // When the pass that `slot` waits for is done here, or kNotYet.
  double ready(int rank, const Slot& slot) {
    const int here = stage(rank, slot);
    const auto from = [&](int stage, double end) {
      return end == kNotYet ? kNotYet
                            : end + hop(rank_of(order_.placement, p_, stage, slot.chunk), rank);
    };
    const Ends& own = ends(here, slot.micro_batch);
    switch (slot.pass) {
      case Pass::forward:
        return here == 0 ? 0 : from(here - 1, ends(here - 1, slot.micro_batch).forward);
      case Pass::weight_grad:
        return own.input_grad;
      case Pass::input_grad:
      case Pass::backward:
        if (own.forward == kNotYet) {
          return kNotYet;
        }
        if (here < stages_ - 1) {
          return from(here + 1, ends(here + 1, slot.micro_batch).input_grad);
        }
        return order_.barriers == 0   ? own.forward
               : order_.barriers == 1 ? after(outputs_, slot.micro_batch)
                                      : after(weights_, slot.micro_batch);
      case Pass::vocabulary:
        return from(stages_ - 1, ends(stages_ - 1, slot.micro_batch).forward);
      case Pass::vocabulary_grad:
        return after(outputs_, slot.micro_batch);
    }
    return kNotYet;
  }

  double length(Pass pass) const {
    switch (pass) {
      case Pass::vocabulary:
        return times_.vocabulary;
      case Pass::vocabulary_grad:
        return times_.vocabulary_grad;
      default:
        break;
    }
    const double of_rank = pass == Pass::forward       ? times_.forward
                           : pass == Pass::input_grad  ? times_.input_grad
                           : pass == Pass::weight_grad ? times_.weight_grad
                                                       : times_.input_grad + times_.weight_grad;
    return both_ ? of_rank : of_rank / chunks_;
  }

  void wake_all_but(int rank) {
    for (int r = p_ - 1; r >= 0; --r) {
      if (r != rank) {
        awake_.push_back(r);
      }
    }
  }

  void finish(int rank, const Slot& slot, double start, double end) {
    const int here = stage(rank, slot);
    if (keep_tasks_) {
      played_.tasks.push_back({rank, here, slot.micro_batch, slot.pass, start, end});
    }
    int neighbour = -1;
    if (of_vocabulary(slot.pass)) {
      Barrier& barrier =
          (slot.pass == Pass::vocabulary ? outputs_
                                         : weights_)[static_cast<std::size_t>(slot.micro_batch)];
      barrier.last = std::max(barrier.last, end);
      if (++barrier.ran == p_) {
        wake_all_but(rank);
      }
      return;
    }
    if (slot.pass == Pass::forward) {
      ends(here, slot.micro_batch).forward = end;
      neighbour = here + 1;
      if (order_.barriers > 0 && neighbour == stages_) {
        wake_all_but(rank);
      }
    } else if (slot.pass != Pass::weight_grad) {
      ends(here, slot.micro_batch).input_grad = end;
      neighbour = here - 1;
    }
    if (neighbour >= 0 && neighbour < stages_) {
      const int other = rank_of(order_.placement, p_, neighbour, slot.chunk);
      if (other != rank) {
        awake_.push_back(other);
      }
    }
  }

  void advance(int rank) {
    const std::size_t r = static_cast<std::size_t>(rank);
    const auto& slots = order_.ranks[r];
    std::size_t& at = cursor_[r];
    while (at < slots.size()) {
      const std::size_t count = slots[at].with_next ? 2 : 1;
      double start = free_at_[r];
      double took = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const double when = ready(rank, slots[at + i]);
        if (when == kNotYet) {
          return;
        }
        start = std::max(start, when);
        took += length(slots[at + i].pass);
      }
      free_at_[r] = start + took;
      begun_at_[r] = begun_at_[r] == kNotYet ? start : begun_at_[r];
      for (std::size_t i = 0; i < count; ++i) {
        busy_[r] += length(slots[at + i].pass);
      }
      for (std::size_t i = 0; i < count; ++i) {
        finish(rank, slots[at + i], start, start + took);
      }
      at += count;
    }
  }

  void summarise() {
    const std::size_t ranks = order_.ranks.size();
    played_.makespan = spans().makespan;
    for (std::size_t r = 0; r < ranks; ++r) {
      // Sums of the same terms in another order: what is left below zero is rounding.
      played_.idle.push_back(std::max(0.0, played_.makespan - busy_[r]));
      played_.idle_inside.push_back(std::max(0.0, free_at_[r] - begun_at_[r] - busy_[r]));
      const auto [until_w, until_i] = peaks(order_.ranks[r]);
      played_.peak_until_w.push_back(until_w);
      played_.peak_until_i.push_back(until_i);
    }
    std::stable_sort(played_.tasks.begin(), played_.tasks.end(),
                     [](const Played::Task& a, const Played::Task& b) {
                       return a.start != b.start ? a.start < b.start : a.rank < b.rank;
                     });
  }

  // A rank runs one pass at a time, or a pair whose forward counts first, so the peaks follow from
  // its order alone.
  static std::pair<int, int> peaks(const std::vector<Slot>& slots) {
    int until_w = 0, until_i = 0, most_w = 0, most_i = 0;
    const auto frees = [&](Pass pass) {
      until_w -= pass == Pass::weight_grad || pass == Pass::backward ? 1 : 0;
      until_i -= pass == Pass::input_grad || pass == Pass::backward ? 1 : 0;
    };
    for (std::size_t at = 0; at < slots.size(); ++at) {
      const bool pair = slots[at].with_next;
      if (slots[at].pass == Pass::forward || (pair && slots[at + 1].pass == Pass::forward)) {
        most_w = std::max(most_w, ++until_w);
        most_i = std::max(most_i, ++until_i);
      }
      frees(slots[at].pass);
      if (pair) {
        frees(slots[++at].pass);
      }
    }
    return {most_w, most_i};
  }

  const Order& order_;
  bool keep_tasks_;
  int p_, m_;
  int chunks_;  // per rank
  bool both_;   // two replicas
  int stages_;  // global: ranks times chunks, or of one replica
  const Times& times_;
  std::vector<Ends> ends_;
  std::vector<Barrier> outputs_, weights_;  // of S and T
  std::vector<std::size_t> cursor_;
  std::vector<double> free_at_, begun_at_, busy_;
  std::vector<int> awake_;
  Played played_;
};

std::optional<Wrong> misfit(const Order& order, const Request& request) {
  if (request.stages < 1 || request.micro_batches < 1 || request.chunks < 1 ||
      order.ranks.size() != static_cast<std::size_t>(request.stages)) {
    return Wrong{fmt::format("an order of {} ranks does not belong to {} stages",
                             order.ranks.size(), request.stages)};
  }
  const int chunks = order.chunks > 0 ? order.chunks : request.chunks;
  if (order.placement == Placement::bidirectional && chunks != 2) {
    return Wrong{fmt::format("two replicas are two chunks a rank, not {}", chunks)};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Wrong> examine(const Order& order, const Request& request) {
  if (auto bad = misfit(order, request)) {
    return bad;
  }
  return Player(order, request, {}, false).run();
}

Spans spans_of(const Order& order, const Request& request, const Times& times) {
  Player player(order, request, times, false);
  const auto wrong = player.run();
  STEPCAST_CHECK(!wrong, wrong->reason);
  return player.spans();
}

std::variant<Played, Infeasible> play(const Order& order, const Request& request,
                                      const Times& times) {
  if (auto bad = misfit(order, request)) {
    return refuse(bad->reason);
  }
  for (const double t : {times.forward, times.input_grad, times.weight_grad, times.comm,
                         times.vocabulary, times.vocabulary_grad}) {
    if (!(t >= 0) || t > 1e300) {
      return refuse("pass and communication times must be finite and not negative");
    }
  }
  Player player(order, request, times);
  if (auto wrong = player.run()) {
    return refuse(wrong->reason);
  }
  return player.result();
}

}  // namespace stepcast::schedule
