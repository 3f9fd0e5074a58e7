// A tape played through the allocator. A run is a value: a copy goes on from where the original
// stands.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "stepcast/memory/allocator.h"
#include "stepcast/memory/replay.h"
#include "stepcast/memory/tape.h"

namespace stepcast::memory {

// A live tensor.
struct Held {
  BlockId id = program::kNone;
  std::int64_t bytes = 0;  // of its block
};

// A place in a run: ahead of call `call` of a step.
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
  Run(const Tape& tape, const AllocatorOptions& options)
      : tape_(&tape), allocator_(options), held_(tape.tensors) {}

  const CachingAllocator& allocator() const { return allocator_; }
  void set_limit(Bytes limit) { allocator_.set_limit(limit); }
  const std::vector<Held>& held() const { return held_; }
  const std::vector<Growth>& growth() const { return growth_; }
  bool out_of_memory() const { return out_of_memory_; }
  // Whole steps played.
  int steps() const { return at_.step; }
  // The allocator's clock at the start of the step under way: it counts positions.
  std::int64_t clock() const {
    return at_.step * (static_cast<std::int64_t>(tape_->calls.size()) + 1);
  }

  // Plays on to a place ahead, or until memory runs out. `before` and `after` are told of every
  // call.
  template <class Before, class After>
  void play_to(Mark to, const Before& before, const After& after);
  void play_to(Mark to) {
    play_to(
        to, [](const Call&) {}, [](const Call&) {});
  }
  // Whole steps: `least` in all, and more until one reserves nothing more than the one before, but
  // at most `most`.
  void play_steps(int least, int most);

  // Of the last whole step.
  Replayed result(const TapeNotes& notes) const;
  // The request at which the most bytes were allocated; none: it was so at the step's start.
  std::optional<std::uint32_t> peak_position() const { return peak_position_; }

 private:
  const std::vector<Call>& calls() const { return at_.step == 0 ? tape_->first : tape_->calls; }
  void begin_step();
  void end_step();
  void request(const Call& c, std::int64_t clock);
  void release(const Call& c, std::int64_t clock);

  const Tape* tape_ = nullptr;
  CachingAllocator allocator_;
  std::vector<Held> held_;  // by tensor
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

template <class Before, class After>
void Run::play_to(Mark to, const Before& before, const After& after) {
  while (at_ < to && !out_of_memory_) {
    const std::vector<Call>& step = calls();
    if (at_.call == 0) {
      begin_step();
    }
    const auto end = static_cast<std::uint32_t>(step.size());
    const std::uint32_t until = at_.step < to.step ? end : std::min(end, to.call);
    const std::int64_t start = clock();
    for (; at_.call < until; ++at_.call) {
      const Call& c = step[at_.call];
      before(c);
      if (c.request) {
        request(c, start);
        if (out_of_memory_) {
          return;
        }
      } else {
        release(c, start);
      }
      after(c);
    }
    if (at_.step < to.step) {
      end_step();
    }
  }
}

}  // namespace stepcast::memory
