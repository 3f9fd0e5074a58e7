#include "run.h"

namespace stepcast::memory {

Run::Run(const Tape& tape, const AllocatorOptions& options)
    : tape_(&tape), allocator_(options), held_(tape.tensors, program::kNone) {
  if (!tape.making.empty()) {
    make_model();
  }
}

// A script whose model does not fit while it is made makes it otherwise, so no limit is felt here.
void Run::make_model() {
  CachingAllocator::State& s = allocator_.state();
  const Bytes limit = s.options.limit;
  s.options.limit = Bytes{0};
  for (const Call& c : tape_->making) {
    if (c.request) {
      request<Rules::all>(c, 0, 0, 0);
    } else {
      release<Rules::all>(c, Time{0}, Time{0});
    }
  }
  allocator_.empty_cache();
  s.options.limit = limit;
  s.limits = {};
  growth_.clear();
}

void Run::begin_step() {
  allocator_.reset_peak();
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

std::uint32_t Run::take_more(const CachingAllocator::State::Request& r, Time now, Mark at) {
  CachingAllocator::State& s = allocator_.state();
  const std::int64_t reserved = s.now.reserved;
  const std::uint32_t n = s.make_room(r, now);
  if (n == kNoNode) {
    out_of_memory_ = true;
  } else if (s.now.reserved > reserved) {
    growth_.push_back({at, s.now.reserved});
  }
  return n;
}

void Run::note_peak(std::uint32_t position) {
  at_peak_ = live_;
  peak_position_ = position;
}

Replayed Run::result(const TapeNotes& notes) const {
  Replayed out;
  out.first = first_;
  out.peak = peak_;
  out.steady = steady_;
  out.at_peak_by_category = at_peak_;
  out.peak_position = peak_position_;
  out.peak_at = peak_position_ && !notes.at.empty() ? notes.at[*peak_position_] : Time{0};
  out.out_of_memory = out_of_memory_;
  out.retries = allocator_.retries();
  return out;
}

}  // namespace stepcast::memory
