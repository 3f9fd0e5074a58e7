// A radix heap of (time, payload): the monotone priority queue that is fastest on ties, which
// symmetric ranks produce.
//
// push: O(1). next(): amortised O(64) moves per event over its life. Nothing may be pushed before
// the time that next() returned last. Equal times leave in the order in which they were pushed.
// There are no handles: whoever cancels an event bumps a generation of its own and skips the stale
// one.
//
// next() finds the earliest time and exposes all its events at once: the engine applies the changes
// of an instant together. What is pushed at that very time while they are handled forms the next
// batch of the same time.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "stepcast/base/quantity.h"

namespace stepcast::engine {

struct Event {
  Time time{0};
  std::uint32_t subject = 0;     // what it concerns; the high bits may hold a kind
  std::uint32_t generation = 0;  // of the subject when it was pushed
};

class EventQueue {
 public:
  void push(const Event& e) {
    const int b = bucket(e.time);
    buckets_[b].push_back(e);
    occupied_ |= std::uint64_t{1} << b;
    ++size_;
  }

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  Time now() const { return last_; }

  // Moves all events of the earliest time to `batch` (cleared first), in the order pushed. False
  // when empty.
  bool next(std::vector<Event>& batch) {
    batch.clear();
    if (size_ == 0) {
      return false;
    }
    if ((occupied_ & 1U) != 0) {
      batch.swap(buckets_[0]);
      occupied_ &= ~std::uint64_t{1};
    } else {
      advance(batch);
    }
    size_ -= batch.size();
    return true;
  }

  // Moves the present and all events on by the same time.
  void postpone(Time by) {
    std::vector<Event> all;
    all.reserve(size_);
    for (std::vector<Event>& bucket : buckets_) {  // equal times share one, in order
      all.insert(all.end(), bucket.begin(), bucket.end());
      bucket.clear();
    }
    occupied_ = 0;
    size_ = 0;
    last_ += by;
    for (const Event& e : all) {
      push({e.time + by, e.subject, e.generation});
    }
  }

  template <class F>
  void for_each(F&& f) const {
    for (const std::vector<Event>& bucket : buckets_) {
      for (const Event& e : bucket) {
        f(e);
      }
    }
  }

  // Whether events at the current time are left (pushed since next()).
  bool more_now() const { return (occupied_ & 1U) != 0; }

 private:
  // Bucket 0: equal to last_. Bucket b: differs from last_ first in bit b - 1.
  int bucket(Time time) const {
    const auto x =
        static_cast<std::uint64_t>(time.count()) ^ static_cast<std::uint64_t>(last_.count());
    return static_cast<int>(std::bit_width(x));
  }

  // Takes the lowest bucket apart: its earliest events to `batch`, the others to lower buckets.
  void advance(std::vector<Event>& batch) {
    const int b = std::countr_zero(occupied_);
    std::vector<Event>& from = buckets_[b];
    occupied_ &= ~(std::uint64_t{1} << b);
    Time least = from.front().time;
    for (const Event& e : from) {
      least = e.time < least ? e.time : least;
    }
    last_ = least;
    for (const Event& e : from) {
      if (e.time == least) {
        batch.push_back(e);
      } else {
        const int to = bucket(e.time);  // always below b, so order within a time is kept
        buckets_[to].push_back(e);
        occupied_ |= std::uint64_t{1} << to;
      }
    }
    from.clear();
  }

  std::array<std::vector<Event>, 64>
      buckets_;  // times are non-negative: 63 bits and the bucket of equals
  std::uint64_t occupied_ = 0;
  std::size_t size_ = 0;
  Time last_{0};
};

}  // namespace stepcast::engine
