// LAW  Beaumont et al., section 4. C(m; i..j): the least time to run stages i..j forward and
// backward
//      when the input of i is held and m further bytes are free:
//        forget until k:  forward i..k-1, keep the input of k, C(m - x_k; k..j), then C(m; i..k-1)
//        keep all of i:   forward i, C(m - saved_i - x_{i+1}; i+1..j), backward i
//      An order begins with a forward sweep through all stages, between whose passes those of other
//      micro-batches run. That outermost level, with the limit `kept`, uses the same recursion.
#include "stepcast/strategy/rotor.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace stepcast::strategy {
namespace {

using Kind = ChainStep::Kind;

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max() / 4;

// Segments of equal stages share a table, so that equal layers need few tables.
class Segments {
 public:
  explicit Segments(const std::vector<ChainStage>& stages) {
    const std::size_t n = stages.size();
    std::map<ChainStage, int> kinds;
    std::map<std::pair<int, int>, int> children;  // (segment, kind of the next stage)
    id_.assign(n, std::vector<int>(n, -1));
    for (std::size_t i = 0; i < n; ++i) {
      int at = -1;
      for (std::size_t j = i; j < n; ++j) {
        const int kind = kinds.try_emplace(stages[j], static_cast<int>(kinds.size())).first->second;
        const auto [it, fresh] =
            children.try_emplace({at, kind}, static_cast<int>(children.size()));
        at = it->second;
        id_[i][j] = at;
        if (fresh) {
          first_.push_back({i, j});
        }
      }
    }
  }
  int id(std::size_t i, std::size_t j) const { return id_[i][j]; }
  // One place of each segment.
  const std::vector<std::pair<std::size_t, std::size_t>>& places() const { return first_; }

 private:
  std::vector<std::vector<int>> id_;
  std::vector<std::pair<std::size_t, std::size_t>> first_;
};

class Rotor {
 public:
  Rotor(const Chain& chain, std::int64_t slots) : s_(chain.stages), segments_(s_), slots_(slots) {
    auto places = segments_.places();
    std::sort(places.begin(), places.end(), [](const auto& a, const auto& b) {
      return a.second - a.first != b.second - b.first ? a.second - a.first < b.second - b.first
                                                      : a < b;
    });
    time_.resize(places.size());
    choice_.resize(places.size());
    for (const auto& [i, j] : places) {
      // Only segments without fixed stages run again.
      const bool fixed = std::any_of(s_.begin() + static_cast<std::ptrdiff_t>(i),
                                     s_.begin() + static_cast<std::ptrdiff_t>(j) + 1,
                                     [](const ChainStage& s) { return s.fixed; });
      if (!fixed) {
        fill(i, j);
      }
    }
  }

  std::int64_t time(std::int64_t memory, std::size_t i, std::size_t j) const {
    return memory < 0 ? kNever
                      : time_[at(i, j)][static_cast<std::size_t>(std::min(memory, slots_))];
  }

  // Steps of C(memory; i..j).
  void write(std::int64_t memory, std::size_t i, std::size_t j, std::vector<ChainStep>& out) const {
    const int k = choice_[at(i, j)][static_cast<std::size_t>(std::min(memory, slots_))];
    const auto first = static_cast<int>(i);
    if (k == 0) {  // keep all
      out.push_back({Kind::keep_all, first});
      if (j > i) {
        write(memory - s_[i].saved - s_[i].output, i + 1, j, out);
      }
      out.push_back({Kind::backward, first});
      return;
    }
    forget(i, i + static_cast<std::size_t>(k), out);
    write(memory - s_[i + static_cast<std::size_t>(k) - 1].output, i + static_cast<std::size_t>(k),
          j, out);
    write(memory, i, i + static_cast<std::size_t>(k) - 1, out);
  }

  // Forward i..k-1, keeping only the first input.
  static void forget(std::size_t i, std::size_t k, std::vector<ChainStep>& out) {
    for (std::size_t l = i; l < k; ++l) {
      out.push_back({l == i ? Kind::keep_input : Kind::keep_nothing, static_cast<int>(l)});
    }
  }

  // Memory beyond the first input while stage l of a forward sweep from i runs.
  std::int64_t sweeping(std::size_t i, std::size_t l) const {
    return (l > i ? s_[l - 1].output : 0) + s_[l].output + s_[l].sweep_extra;
  }

 private:
  std::size_t at(std::size_t i, std::size_t j) const {
    return static_cast<std::size_t>(segments_.id(i, j));
  }

  void fill(std::size_t i, std::size_t j) {
    auto& time = time_[at(i, j)];
    auto& choice = choice_[at(i, j)];
    time.assign(static_cast<std::size_t>(slots_) + 1, kNever);
    choice.assign(static_cast<std::size_t>(slots_) + 1, 0);
    const ChainStage& first = s_[i];
    const std::int64_t waiting = s_[j].gradient;
    const std::int64_t whole = first.saved + std::max(waiting + first.output + first.forward_extra,
                                                      first.gradient + first.backward_extra);
    std::vector<std::int64_t> swept(j - i + 1, 0);  // time and need of forgetting until i + k
    std::vector<std::int64_t> need(j - i + 1, 0);
    for (std::size_t k = 1; k <= j - i; ++k) {
      swept[k] = swept[k - 1] + s_[i + k - 1].forward;
      need[k] = std::max(need[k - 1], waiting + sweeping(i, i + k - 1));
    }
    for (std::int64_t m = 0; m <= slots_; ++m) {
      const auto slot = static_cast<std::size_t>(m);
      if (m >= whole) {
        const std::int64_t rest = i == j ? 0 : this->time(m - first.saved - first.output, i + 1, j);
        time[slot] = rest >= kNever ? kNever : first.forward + first.backward + rest;
      }
      for (std::size_t k = 1; k <= j - i && need[k] <= m; ++k) {
        const std::int64_t tail = this->time(m - s_[i + k - 1].output, i + k, j);
        const std::int64_t head = this->time(m, i, i + k - 1);
        if (tail < kNever && head < kNever && swept[k] + tail + head < time[slot]) {
          time[slot] = swept[k] + tail + head;
          choice[slot] = static_cast<std::int16_t>(k);
        }
      }
    }
  }

  const std::vector<ChainStage>& s_;
  Segments segments_;
  std::int64_t slots_;
  std::vector<std::vector<std::int64_t>> time_;  // by segment and memory
  std::vector<std::vector<std::int16_t>> choice_;
};

// The outermost level: at most `kept` is held between the passes, at most `peak` at any time.
class Outermost {
 public:
  Outermost(const Chain& chain, const Rotor& rotor, std::int64_t kept, std::int64_t peak)
      : chain_(chain), s_(chain.stages), rotor_(rotor), kept_(kept), peak_(peak) {
    const std::size_t n = s_.size();
    time_.assign(n + 1, std::vector<std::int64_t>(static_cast<std::size_t>(kept_) + 1, kNever));
    choice_.assign(n, std::vector<std::int16_t>(static_cast<std::size_t>(kept_) + 1, 0));
    std::fill(time_[n].begin(), time_[n].end(), 0);
    for (std::size_t i = n; i-- > 0;) {
      for (std::int64_t q = i == 0 ? chain_.input : 0; q <= (i == 0 ? chain_.input : kept_); ++q) {
        choose(i, q);
      }
    }
  }

  std::int64_t time() const {
    return chain_.input > kept_ ? kNever : time_[0][static_cast<std::size_t>(chain_.input)];
  }

  std::vector<ChainStep> steps() const {
    std::vector<ChainStep> forward;
    std::vector<std::vector<ChainStep>> backward;  // by segment, last first
    std::int64_t q = chain_.input;
    for (std::size_t i = 0; i < s_.size();) {
      const int k = choice_[i][static_cast<std::size_t>(q)];
      backward.emplace_back();
      if (k == 0) {
        forward.push_back({Kind::keep_all, static_cast<int>(i)});
        backward.back().push_back({Kind::backward, static_cast<int>(i)});
        q += s_[i].saved + next_input(i + 1);
        ++i;
      } else {
        const std::size_t until = i + static_cast<std::size_t>(k);
        Rotor::forget(i, until, forward);
        rotor_.write(peak_ - q, i, until - 1, backward.back());
        q += next_input(until);
        i = until;
      }
    }
    for (auto it = backward.rbegin(); it != backward.rend(); ++it) {
      forward.insert(forward.end(), it->begin(), it->end());
    }
    return forward;
  }

 private:
  // Input of stage k as it is kept; what the last one makes goes elsewhere.
  std::int64_t next_input(std::size_t k) const { return k < s_.size() ? s_[k - 1].output : 0; }

  std::int64_t after(std::size_t i, std::int64_t q) const {
    return q > kept_ ? kNever : time_[i][static_cast<std::size_t>(q)];
  }

  void choose(std::size_t i, std::int64_t q) {
    auto& best = time_[i][static_cast<std::size_t>(q)];
    auto& choice = choice_[i][static_cast<std::size_t>(q)];
    const ChainStage& first = s_[i];
    const std::int64_t free = peak_ - q;
    if (first.saved +
            std::max(first.output + first.forward_extra, first.gradient + first.backward_extra) <=
        free) {
      const std::int64_t rest = after(i + 1, q + first.saved + next_input(i + 1));
      best = rest >= kNever ? kNever : first.forward + first.backward + rest;
    }
    std::int64_t swept = 0;
    for (std::size_t k = i + 1; k <= s_.size(); ++k) {
      swept += s_[k - 1].forward;
      if (s_[k - 1].fixed || rotor_.sweeping(i, k - 1) > free) {
        return;
      }
      const std::int64_t rest = after(k, q + next_input(k));
      const std::int64_t again = rotor_.time(free, i, k - 1);
      if (rest < kNever && again < kNever && swept + rest + again < best) {
        best = swept + rest + again;
        choice = static_cast<std::int16_t>(k - i);
      }
    }
  }

  const Chain& chain_;
  const std::vector<ChainStage>& s_;
  const Rotor& rotor_;
  std::int64_t kept_;
  std::int64_t peak_;
  std::vector<std::vector<std::int64_t>> time_;  // from stage i on, by what is kept so far
  std::vector<std::vector<std::int16_t>> choice_;
};

Chain in_slots(const Chain& chain, std::int64_t slot) {
  const auto up = [&](std::int64_t& size) { size = (size + slot - 1) / slot; };
  Chain out = chain;
  up(out.input);
  for (ChainStage& s : out.stages) {
    for (std::int64_t* size :
         {&s.saved, &s.output, &s.gradient, &s.forward_extra, &s.sweep_extra, &s.backward_extra}) {
      up(*size);
    }
  }
  return out;
}

// The limits on kept memory that are tried: those of equal groups, those of the first stages, and
// evenly spaced ones between them (all, if there are few).
std::set<std::int64_t> kept_sizes(const Chain& chain, std::int64_t most) {
  constexpr int kEven = 64;
  const int n = static_cast<int>(chain.stages.size());
  std::set<std::int64_t> out;
  for (int i = 0; i <= n; ++i) {
    out.insert(cost_of(chain, redo_first(chain, i))->kept);
    out.insert(cost_of(chain, redo_in_groups(chain, std::max(i, 1)))->kept);
  }
  const std::int64_t least = *out.begin();
  const std::int64_t whole = *out.rbegin();
  for (int i = 1; i < kEven; ++i) {
    out.insert(least + (whole - least) * i / kEven);
  }
  out.erase(out.upper_bound(most), out.end());
  return out;
}

}  // namespace

std::int64_t enough(const Chain& chain) {
  std::int64_t kept = chain.input;
  std::int64_t most = 0;
  for (const ChainStage& s : chain.stages) {
    kept += s.saved + s.output;
    most =
        std::max(most, s.output + s.gradient + s.forward_extra + s.sweep_extra + s.backward_extra);
  }
  return kept + 2 * most;
}

namespace {

// Lengths of the segments that differ, together: what each slot of the solver's tables costs. Of
// equal layers about the square of the stages, of unlike ones their cube. 0 for chains so long that
// the comparison itself would take longer, and so short that it comes to less than their square.
std::int64_t lengths_of_segments(const Chain& chain) {
  constexpr std::size_t kShort = 24;
  constexpr std::size_t kLong = 1000;
  if (chain.stages.size() <= kShort || chain.stages.size() > kLong) {
    return 0;
  }
  const Segments segments(chain.stages);
  std::int64_t sum = 0;
  for (const auto& [i, j] : segments.places()) {
    sum += static_cast<std::int64_t>(j - i) + 1;
  }
  return sum;
}

}  // namespace

std::int64_t solver_unit(const Chain& chain, std::int64_t whole) {
  constexpr std::int64_t kUnits = 4000;
  constexpr std::int64_t kMostUnits = 4 * kUnits;
  constexpr std::int64_t kMostWork = 800'000'000;    // slots times the square of the stages
  constexpr std::int64_t kMostUnlike = 200'000'000;  // slots times the lengths of the segments
  const auto stages = std::max<std::int64_t>(1, static_cast<std::int64_t>(chain.stages.size()));
  const std::int64_t lengths = lengths_of_segments(chain);
  const bool unlike = lengths > 4 * stages * stages;
  const std::int64_t most = unlike ? kMostUnlike / lengths : kMostWork / (stages * stages);
  const std::int64_t units = std::clamp<std::int64_t>(most, 1, kMostUnits);
  return std::max({std::int64_t{512}, whole / kUnits, enough(chain) / units});
}

std::optional<ChainCost> cost_of(const Chain& chain, const std::vector<ChainStep>& steps) {
  const auto& s = chain.stages;
  const std::size_t n = s.size();
  std::vector<bool> input(n, false);  // held
  std::vector<bool> saved(n, false);
  ChainCost out;
  std::int64_t held = chain.input;
  std::size_t made = 0;  // whose input was made by the step before
  std::size_t left = n;  // stages without their backward pass
  bool turned = false;
  input[0] = n > 0;
  const auto size = [&](std::size_t i) { return i == 0 ? chain.input : s[i - 1].output; };
  for (const ChainStep& step : steps) {
    const auto i = static_cast<std::size_t>(step.stage);
    if (i >= left) {
      return std::nullopt;
    }
    if (step.kind == Kind::backward) {
      if (!turned || i + 1 != left || !saved[i] || !input[i]) {
        return std::nullopt;
      }
      out.peak = std::max(out.peak, held + s[i].gradient + s[i].backward_extra);
      out.time += s[i].backward;
      held -= s[i].saved + size(i);
      input[i] = saved[i] = false;
      --left;
      made = n + 1;
      continue;
    }
    if (!input[i] && made != i) {
      return std::nullopt;
    }
    const std::int64_t own = input[i] ? 0 : size(i);
    const bool all = step.kind == Kind::keep_all && !saved[i];
    out.peak = std::max(out.peak, held + own + s[i].output +
                                      (all ? s[i].saved + s[i].forward_extra : s[i].sweep_extra) +
                                      (turned ? s[left - 1].gradient : 0));
    out.time += s[i].forward;
    if (step.kind != Kind::keep_nothing && !input[i]) {
      input[i] = true;
      held += size(i);
    }
    if (all) {
      saved[i] = true;
      held += s[i].saved;
    }
    made = i + 1;
    if (!turned && made == n) {
      turned = true;
      out.kept = held;
    }
  }
  return left == 0 ? std::optional(out) : std::nullopt;
}

namespace {

// Stages whose inputs are kept, and stages that keep nothing until they run again from the kept
// input before them.
std::vector<ChainStep> redo(const std::vector<Kind>& kinds) {
  std::vector<ChainStep> out;
  const std::size_t n = kinds.size();
  for (std::size_t i = 0; i < n; ++i) {
    out.push_back({kinds[i], static_cast<int>(i)});
  }
  for (std::size_t end = n; end > 0;) {
    std::size_t first = end - 1;
    while (kinds[first] == Kind::keep_nothing) {
      --first;
    }
    for (std::size_t i = first; i < end && kinds[i] != Kind::keep_all; ++i) {
      out.push_back({Kind::keep_all, static_cast<int>(i)});
    }
    for (std::size_t i = end; i-- > first;) {
      out.push_back({Kind::backward, static_cast<int>(i)});
    }
    end = first;
  }
  return out;
}

}  // namespace

std::vector<ChainStep> redo_in_groups(const Chain& chain, int group) {
  std::vector<Kind> kinds;
  int n = 0;
  for (const ChainStage& s : chain.stages) {
    kinds.push_back(s.fixed            ? Kind::keep_all
                    : n++ % group == 0 ? Kind::keep_input
                                       : Kind::keep_nothing);
    n = s.fixed ? 0 : n;
  }
  return redo(kinds);
}

std::vector<ChainStep> redo_first(const Chain& chain, int count) {
  std::vector<Kind> kinds;
  int n = 0;
  for (const ChainStage& s : chain.stages) {
    kinds.push_back(!s.fixed && n++ < count ? Kind::keep_input : Kind::keep_all);
  }
  return redo(kinds);
}

std::optional<ChainPlan> optimal_chain(const Chain& chain, const ChainLimits& limits) {
  std::optional<ChainPlan> best;
  const auto take = [&](std::vector<ChainStep> steps) {
    const ChainCost cost = *cost_of(chain, steps);
    if (limits.others * cost.kept + cost.peak <= limits.memory &&
        (!best || cost.time < best->cost.time)) {
      best = ChainPlan{cost, std::move(steps)};
    }
  };
  const int n = static_cast<int>(chain.stages.size());
  for (int i = 0; i <= n; ++i) {
    take(redo_first(chain, i));
    take(redo_in_groups(chain, std::max(i, 1)));
  }
  const Chain rounded = in_slots(chain, limits.slot);
  const std::int64_t slots = limits.memory / limits.slot;
  const std::int64_t useful = std::min(slots, enough(rounded));
  const Rotor rotor(rounded, std::max<std::int64_t>(useful, 0));
  std::set<std::int64_t> sizes{useful};
  if (limits.others > 0) {
    sizes = kept_sizes(rounded, useful);
  }
  for (const std::int64_t kept : sizes) {
    const std::int64_t peak = std::min(slots - limits.others * kept, useful);
    if (peak < kept) {
      break;
    }
    const Outermost level(rounded, rotor, kept, peak);
    if (level.time() < kNever && (!best || level.time() < best->cost.time)) {
      take(level.steps());
    }
  }
  return best;
}

std::int64_t least_memory(const Chain& chain, int others, std::int64_t slot) {
  std::int64_t low = -1;  // in slots: too little
  std::int64_t high = (others + 1) * (enough(chain) / slot + 1);
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (optimal_chain(chain, {middle * slot, others, slot}) ? high : low) = middle;
  }
  return high * slot;
}

}  // namespace stepcast::strategy
