#include "run.h"

namespace stepcast::memory {

void Run::begin_step() {
  allocator_.reset_peak();
  most_ = allocator_.now().allocated;
  at_peak_ = live_;
  peak_position_.reset();
}

void Run::end_step() {
  if (at_.step == 0) {
    first_ = allocator_.peak();
  }
  peak_ = allocator_.peak();
  reserved_before_ = at_.step == 0 ? -1 : steady_.reserved;
  steady_ = allocator_.now();
  ++at_.step;
  at_.call = 0;
}

void Run::request(const Call& c, std::int64_t clock) {
  const std::int64_t reserved = allocator_.now().reserved;
  const auto id = allocator_.allocate(c.bytes, c.stream, Time(clock + c.position));
  if (!id) {
    out_of_memory_ = true;
    return;
  }
  Held& t = held_[c.tensor];
  t = {*id, allocator_.size(*id)};
  live_[static_cast<std::size_t>(c.category)] += t.bytes;
  const AllocatorStats& now = allocator_.now();
  if (now.allocated > most_) {
    most_ = now.allocated;
    at_peak_ = live_;
    peak_position_ = c.position;
  }
  if (now.reserved > reserved) {
    growth_.push_back({at_, now.reserved});
  }
}

// Of a tensor that stands: in the first step, those of the step before do not.
void Run::release(const Call& c, std::int64_t clock) {
  Held& t = held_[c.tensor];
  if (t.id == program::kNone) {
    return;
  }
  live_[static_cast<std::size_t>(c.category)] -= t.bytes;
  allocator_.release(t.id, Time(clock + c.position), c.safe == 0 ? Time{0} : Time(clock + c.safe));
  t.id = program::kNone;
}

void Run::play_steps(int least, int most) {
  while (!out_of_memory_ && at_.step < most &&
         (at_.step < least || at_.call > 0 || steady_.reserved != reserved_before_)) {
    play_to({at_.step + 1, 0});
  }
}

Replayed Run::result(const TapeNotes& notes) const {
  Replayed out;
  out.first = first_;
  out.peak = peak_;
  out.steady = steady_;
  out.at_peak_by_category = at_peak_;
  out.peak_position = peak_position_;
  out.peak_at = peak_position_ ? notes.at[*peak_position_] : Time{0};
  out.out_of_memory = out_of_memory_;
  out.retries = allocator_.retries();
  return out;
}

}  // namespace stepcast::memory
