// A tape played through the allocator. A run is a value: a copy goes on from where the original
// stands.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "allocator_state.h"
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
  void play_to(Mark to) {
    const auto nothing = [](const Call&, std::uint32_t) {};
    play_to(to, nothing, nothing);
  }
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
  void request(const Call& c, std::uint32_t position, std::int64_t start);
  // `safe`: the position from which its memory may be used again.
  void release(const Call& c, std::uint32_t position, std::uint32_t safe, std::int64_t start);
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
  std::int64_t most_ = 0;
  std::optional<std::uint32_t> peak_position_;
  std::vector<Growth> growth_;
};

inline void Run::request(const Call& c, std::uint32_t position, std::int64_t start) {
  CachingAllocator::State& s = allocator_.state();
  const std::int64_t reserved = s.now.reserved;
  const std::uint32_t n = s.request(c.bytes, c.stream, Time(start + position));
  if (n == kNoNode) {
    out_of_memory_ = true;
    return;
  }
  held_[c.tensor] = BlockId::at(n);
  live_[static_cast<std::size_t>(c.category)] += s.nodes[n].bytes;
  if (s.now.allocated > most_) {
    note_peak(position);
  }
  if (s.now.reserved > reserved) {
    growth_.push_back({at_, s.now.reserved});
  }
}

// Of a tensor that stands: in the first step, those of the step before do not.
inline void Run::release(const Call& c, std::uint32_t position, std::uint32_t safe,
                         std::int64_t start) {
  BlockId& id = held_[c.tensor];
  if (id == program::kNone) {
    return;
  }
  CachingAllocator::State& s = allocator_.state();
  live_[static_cast<std::size_t>(c.category)] -= s.nodes[id].bytes;
  s.give_back(id, Time(start + position), safe == 0 ? Time{0} : Time(start + safe));
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
  const Call* calls = s.own ? tape_->own.data() : tape_->calls.data();
  const bool all = at_.step > 0 || tape_->later.empty();
  const std::int64_t start = clock();
  const std::uint32_t last = s.begin + std::min(until - ahead, s.end - s.begin);
  for (std::uint32_t i = s.begin + (at_.call - ahead); i < last; ++i, ++at_.call) {
    const Call& c = calls[i];
    if (!all && !s.own && tape_->later[c.tensor] != 0) {
      continue;
    }
    const std::uint32_t position = s.own ? s.position : i;
    before(c, position);
    if (c.request) {
      request(c, position, start);
      if (out_of_memory_) {
        return;
      }
    } else {
      const bool waits = !s.own && position < tape_->safe.size();
      release(c, position, waits ? tape_->safe[position] : 0, start);
    }
    after(c, position);
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
