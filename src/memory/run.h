// A tape played through the allocator. A run is a value: a copy goes on from where the original
// stands.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "allocator_calls.h"
#include "stepcast/memory/allocator.h"
#include "stepcast/memory/replay.h"
#include "stepcast/memory/tape.h"

namespace stepcast::memory {

// A place in a run: ahead of call `call` of a step; those of the first step are counted through its
// stretches.
struct Mark {
  int step = 0;
  std::uint32_t call = 0;

  auto operator<=>(const Mark&) const = default;
};

// A request that took memory from the driver, and what is reserved with it.
struct Growth {
  Mark at;
  std::int64_t reserved = 0;
};

// Of calls that nobody looks at.
struct Unobserved {
  void operator()(const Call&, std::uint32_t) const {}
};

class Run {
 public:
  Run(const Tape& tape, const AllocatorOptions& options);

  const CachingAllocator& allocator() const { return allocator_; }
  void set_limit(Bytes limit) { allocator_.set_limit(limit); }
  // By tensor: its block; kNone: it is not live.
  const std::vector<BlockId>& held() const { return held_; }
  const std::vector<Growth>& growth() const { return growth_; }
  bool out_of_memory() const { return out_of_memory_; }
  // Whole steps played.
  int steps() const { return at_.step; }
  // The allocator's clock at the start of the step under way: it counts positions.
  std::int64_t clock() const {
    return at_.step * (static_cast<std::int64_t>(tape_->calls.size()) + 1);
  }

  // Plays on to a place ahead, or until memory runs out. `before` and `after` are told of every
  // call and its position.
  template <class Before, class After>
  void play_to(Mark to, const Before& before, const After& after);
  void play_to(Mark to) { play_to(to, Unobserved{}, Unobserved{}); }
  // Whole steps: `least` in all, and more until one reserves nothing more than the one before, but
  // at most `most`. `between` is called ahead of each but the first that it plays.
  template <class Between>
  void play_steps(int least, int most, const Between& between);
  void play_steps(int least, int most) {
    play_steps(least, most, [] {});
  }

  // Of the last whole step.
  Replayed result(const TapeNotes& notes) const;
  // The request at which the most bytes were allocated; none: it was so at the step's start.
  std::optional<std::uint32_t> peak_position() const { return peak_position_; }

 private:
  // Plays the calls of a stretch that begins `ahead` calls into the step, up to call `until` of it.
  template <class Before, class After>
  void play(const Stretch& s, std::uint32_t ahead, std::uint32_t until, const Before& before,
            const After& after);
  void make_model();
  void begin_step();
  void end_step();
  // `call`: its place in the step, as a mark has it. False: memory runs out.
  template <Rules kRules>
  bool request(const Call& c, std::uint32_t position, std::int64_t start, std::uint32_t call);
  // `safe`: from when its memory may be used again.
  template <Rules kRules>
  void release(const Call& c, Time at, Time safe);
  // A block where no free one is large enough; kNoNode: out of memory.
  std::uint32_t take_more(const CachingAllocator::State::Request& r, Time now, Mark at);
  // More bytes are allocated than in the step so far.
  void note_peak(std::uint32_t position);

  const Tape* tape_ = nullptr;
  CachingAllocator allocator_;
  std::vector<BlockId> held_;
  Mark at_;
  bool out_of_memory_ = false;
  AllocatorStats first_, peak_, steady_;
  std::int64_t reserved_before_ = -1;  // at the end of the step before
  std::array<std::int64_t, program::kMemoryCategories> live_{};
  std::array<std::int64_t, program::kMemoryCategories> at_peak_{};
  std::optional<std::uint32_t> peak_position_;
  std::vector<Growth> growth_;
};

template <Rules kRules>
[[gnu::always_inline]] inline bool Run::request(const Call& c, std::uint32_t position,
                                                std::int64_t start, std::uint32_t call) {
  CachingAllocator::State& s = allocator_.state();
  const Time now(start + position);
  const CachingAllocator::State::Request r = s.begin<kRules>(c.bytes, c.stream, now);
  std::uint32_t n = s.take_free<kRules>(r);
  if (n == kNoNode) {
    n = take_more(r, now, {at_.step, call});
    if (n == kNoNode) {
      return false;
    }
  }
  held_[c.tensor] = BlockId::at(n);
  live_[static_cast<std::size_t>(c.category)] += s.nodes[n].bytes;
  if (s.hand_out<kRules>(n, c.bytes)) {
    note_peak(position);
  }
  return true;
}

// Of a tensor that stands: in the first step, those of the step before do not.
template <Rules kRules>
[[gnu::always_inline]] inline void Run::release(const Call& c, Time at, Time safe) {
  BlockId& id = held_[c.tensor];
  if (id == program::kNone) {
    return;
  }
  CachingAllocator::State& s = allocator_.state();
  live_[static_cast<std::size_t>(c.category)] -= s.nodes[id].bytes;
  s.give_back<kRules>(id, at, safe);
  id = program::kNone;
}

template <class Between>
void Run::play_steps(int least, int most, const Between& between) {
  const int first = at_.step;
  while (!out_of_memory_ && at_.step < most &&
         (at_.step < least || at_.call > 0 || steady_.reserved != reserved_before_)) {
    if (at_.step > first) {
      between();
    }
    play_to({at_.step + 1, 0});
  }
}

template <class Before, class After>
void Run::play(const Stretch& s, std::uint32_t ahead, std::uint32_t until, const Before& before,
               const After& after) {
  const Call* const calls = s.own ? tape_->own.data() : tape_->calls.data();
  const bool all = s.own || at_.step > 0 || tape_->later.empty();
  const std::int64_t start = clock();
  const std::uint32_t last = s.begin + std::min(until - ahead, s.end - s.begin);
  // Most stretches neither leave calls out nor have blocks that wait.
  const auto play_by = [&]<Rules kRules>(const auto& skips, const auto& place_of,
                                         const auto& safe_at) {
    std::uint32_t i = s.begin + (at_.call - ahead);
    for (; i < last; ++i) {
      const Call& c = calls[i];
      if (skips(c)) {
        continue;
      }
      const std::uint32_t position = place_of(i);
      before(c, position);
      if (!c.request) {
        release<kRules>(c, Time(start + position), safe_at(position));
      } else if (!request<kRules>(c, position, start, ahead + (i - s.begin))) {
        break;
      }
      after(c, position);
    }
    at_.call = ahead + (i - s.begin);
  };
  const auto play_on = [&](const auto&... how) { play_by.template operator()<Rules::all>(how...); };
  const auto skips_none = [](const Call&) { return false; };
  const auto by_call = [](std::uint32_t call) { return call; };
  const auto at_once = [](std::uint32_t) { return Time{0}; };
  if (s.own) {
    play_on(
        skips_none, [&](std::uint32_t) { return s.position; }, at_once);
  } else if (all && tape_->safe.empty()) {
    CachingAllocator::State& allocator = allocator_.state();
    // Whoever looks on may ask for active bytes at any call.
    if (std::is_same_v<Before, Unobserved> && allocator.meets_usual_rules()) {
      play_by.template operator()<Rules::usual>(skips_none, by_call, at_once);
      allocator.note_active();
    } else {
      play_on(skips_none, by_call, at_once);
    }
  } else {
    play_on([&](const Call& c) { return !all && tape_->later[c.tensor] != 0; }, by_call,
            [&](std::uint32_t position) {
              const std::uint32_t safe = tape_->safe.empty() ? 0 : tape_->safe[position];
              return safe == 0 ? Time{0} : Time(start + safe);
            });
  }
}

template <class Before, class After>
void Run::play_to(Mark to, const Before& before, const After& after) {
  const std::vector<Stretch> later = {
      {0, static_cast<std::uint32_t>(tape_->calls.size()), 0, false}};
  while (at_ < to && !out_of_memory_) {
    if (at_.call == 0) {
      begin_step();
    }
    const std::uint32_t until = at_.step < to.step ? program::kNone : to.call;
    std::uint32_t ahead = 0;
    for (const Stretch& s : at_.step == 0 ? tape_->first : later) {
      const std::uint32_t end = ahead + (s.end - s.begin);
      if (at_.call < end && at_.call < until) {
        play(s, ahead, until, before, after);
        if (out_of_memory_) {
          return;
        }
      }
      ahead = end;
    }
    if (at_.step == to.step) {
      return;
    }
    end_step();
  }
}

}  // namespace stepcast::memory
