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

void Run::request(const Call& c, std::uint32_t position, std::int64_t start) {
  const std::int64_t reserved = allocator_.now().reserved;
  const auto id = allocator_.allocate(c.bytes, c.stream, Time(start + position));
  if (!id) {
    out_of_memory_ = true;
    return;
  }
  held_[c.tensor] = *id;
  live_[static_cast<std::size_t>(c.category)] += allocator_.size(*id);
  const AllocatorStats& now = allocator_.now();
  if (now.allocated > most_) {
    most_ = now.allocated;
    at_peak_ = live_;
    peak_position_ = position;
  }
  if (now.reserved > reserved) {
    growth_.push_back({at_, now.reserved});
  }
}

// Of a tensor that stands: in the first step, those of the step before do not.
void Run::release(const Call& c, std::uint32_t position, std::int64_t start) {
  BlockId& id = held_[c.tensor];
  if (id == program::kNone) {
    return;
  }
  live_[static_cast<std::size_t>(c.category)] -= allocator_.size(id);
  const std::uint32_t safe = position < tape_->safe.size() ? tape_->safe[position] : 0;
  allocator_.release(id, Time(start + position), safe == 0 ? Time{0} : Time(start + safe));
  id = program::kNone;
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
