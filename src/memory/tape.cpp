#include "stepcast/memory/tape.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "script.h"
#include "stepcast/base/diagnostics.h"

namespace stepcast::memory {

using program::Buffer;
using program::BufferIndex;
using program::MemoryEvent;
using program::Place;
using program::Program;

namespace {

// The time that a pass takes, of which its calls have fractions.
class Span {
 public:
  Span(Time begin, Time end) : begin_(begin), length_((end - begin).count()) {}
  Time at(std::uint32_t fraction) const {
    return begin_ + Time((length_ >> 16) * fraction + (((length_ & 0xffff) * fraction) >> 16));
  }

 private:
  Time begin_;
  std::int64_t length_;
};

// Steps after which a block that still waits is taken to be free.
constexpr std::uint32_t kMostStepsWaited = 64;

// What calls say of a buffer.
struct OfBuffer {
  std::uint32_t first = 0, count = 0;   // tensors
  std::uint32_t taken = 0, handed = 0;  // FirstStepBuffer's
  std::uint8_t stream = 0;
  program::MemoryCategory category = program::MemoryCategory::other;
};

// A tensor's last call so far.
enum class Last : std::uint8_t { none, request, release };

// Where calls are written. A pass writes through a copy, which stays in registers.
struct Writer {
  Call* calls = nullptr;
  TracePlace* places = nullptr;
  Time *at = nullptr, *safe = nullptr;  // with times
  Last* last = nullptr;                 // by tensor
  std::uint32_t recorded = 0;           // calls
  TracePlace place;                     // of the call under way
};

class Recorder {
 public:
  // `timed`: the notes have times. They are needed where a block waits.
  Recorder(const Program& p, const std::vector<MemoryEvent>& trace, Time period, RecordedTape& out,
           bool timed, Occasion occasion = Occasion::every_step)
      : p_(p),
        trace_(trace),
        timed_(timed),
        occasion_(occasion),
        script_(compile(p, trace, occasion)),
        out_(out) {
    const Time length = trace.empty() ? Time{1} : trace.back().time + Time{1};
    out_.notes.period = period > Time{0} ? period : length;
    out_.notes.first = script_.first;
    out_.tape.tensors = script_.first.back();
    last_.assign(out_.tape.tensors, Last::none);
    out_.notes.buffer.resize(out_.tape.tensors);
    of_.reserve(p.buffers.size());
    for (BufferIndex b; b < p.buffers.size(); ++b) {
      const Buffer& buffer = p.buffers[b];
      const program::FirstStepBuffer tensors = tensors_of(p, b, occasion);
      of_.push_back({script_.first[b], std::max<std::uint32_t>(1, tensors.blocks), tensors.taken,
                     tensors.handed, buffer.stream, buffer.category});
      for (std::uint32_t t = script_.first[b]; t < end_of(b); ++t) {
        out_.notes.buffer[t] = b;
      }
    }
  }

  void record() {
    record_calls();
    if (timed_) {
      out_.notes.at.push_back(trace_.empty() ? Time{0} : trace_.back().time);
    }
    find_safe_positions();
    record_first_step();
  }
  void record_calls() {
    timed_ ? record_events<true>() : record_events<false>();
    join_handed_tensors();
    drop_idle_releases();
  }

 private:
  struct Handed {  // positions of a tensor that one pass hands to another
    std::uint32_t made = 0, released = 0, taken = 0;
  };

  std::uint32_t end_of(BufferIndex buffer) const { return of_[buffer].first + of_[buffer].count; }

  // ---------------------------------------------------------------- the calls of a step
  template <bool kTimed>
  void record_events() {
    const std::size_t lazy_from = lazy_event();
    resize(most_calls());
    TapeNotes& notes = out_.notes;
    to_ = {out_.tape.calls.data(),
           notes.place.data(),
           notes.at.data(),
           notes.safe.data(),
           last_.data(),
           0,
           {}};
    for (std::uint32_t event = 0; event < trace_.size(); ++event) {
      const MemoryEvent& e = trace_[event];
      to_.place = {event, 0};
      if (event == lazy_from) {
        lazy_at_ = to_.recorded;
        lazy_time_ = e.time;
      }
      switch (script_.actions[event]) {
        case Action::skip:
          break;
        case Action::allocate:
          for (std::uint32_t t = script_.first[e.buffer]; t < end_of(e.buffer); ++t) {
            request<kTimed>(to_, of_[e.buffer], t, bytes_of(e.buffer, t), e.time);
          }
          break;
        case Action::release:
          for (std::uint32_t t = script_.first[e.buffer]; t < end_of(e.buffer); ++t) {
            release<kTimed>(to_, of_[e.buffer], t, e.time, e.safe);
          }
          break;
        case Action::pass:
          record_pass<kTimed>(script_.passes[script_.pass[event]], e.time);
          break;
      }
    }
    resize(to_.recorded);
  }

  std::size_t most_calls() const {
    std::size_t calls = 0;
    for (const Pass& pass : script_.passes) {
      calls += pass.calls;
    }
    for (std::size_t i = 0; i < trace_.size(); ++i) {
      const BufferIndex b = trace_[i].buffer;
      const bool plain =
          script_.actions[i] == Action::allocate || script_.actions[i] == Action::release;
      calls += plain ? end_of(b) - script_.first[b] : 0;
    }
    return calls;
  }
  // Where there is not the room for so many, what they held is not kept.
  void resize(std::size_t calls) {
    const auto to = [&](auto& of) {
      if (of.capacity() <= calls) {
        of.clear();
        of.reserve(calls + 1);
      }
      of.resize(calls);
    };
    const auto to_times = [&](std::vector<Time>& of) { timed_ ? to(of) : of.clear(); };
    to(out_.tape.calls);
    to(out_.notes.place);
    to_times(out_.notes.at);
    to_times(out_.notes.safe);
  }

  // The event before which lazy buffers are made; events of the trace are the host's allocations
  // and releases, one for one.
  std::size_t lazy_event() const {
    const auto events =
        std::count_if(p_.host.begin(), p_.host.end(), [](const program::HostOp& op) {
          return op.kind == program::HostKind::allocate || op.kind == program::HostKind::release;
        });
    const bool known = p_.lazy_from && static_cast<std::size_t>(events) == trace_.size();
    return known ? *p_.lazy_from : trace_.size();
  }

  template <bool kTimed>
  void record_pass(const Pass& pass, Time begin) {
    const Span span(begin, trace_[pass.end].time);
    const BufferIndex* const roles = script_.roles.data() + pass.first_role;
    const OfBuffer* const buffers = of_.data();
    const PassCall* const end = script_.calls.data() + pass.first_call + pass.calls;
    Writer to = to_;
    for (const PassCall* c = end - pass.calls; c != end; ++c) {
      const OfBuffer& of = buffers[roles[c->role]];
      const Time at = kTimed ? span.at(c->fraction) : Time{0};
      to.place.fraction = c->fraction;
      if (c->allocate) {
        request<kTimed>(to, of, of.first + c->block, c->bytes, at);
      } else {
        release<kTimed>(to, of, of.first + c->block, at, at);
      }
    }
    to_.recorded = to.recorded;
  }

  // Bytes as requested, by tensor.
  std::int64_t bytes_of(BufferIndex buffer, std::uint32_t tensor) const {
    const program::FirstStepBuffer b = tensors_of(p_, buffer, occasion_);
    return b.blocks == 0 ? b.bytes.count()
                         : p_.blocks[b.first_block + tensor - script_.first[buffer]].bytes.count();
  }

  static Call call_of(const OfBuffer& of, std::uint32_t tensor, bool request) {
    Call c;
    c.tensor = tensor;
    c.stream = of.stream;
    c.category = of.category;
    c.request = request;
    return c;
  }
  Call call_of(BufferIndex buffer, std::uint32_t tensor, bool request) const {
    return call_of(of_[buffer], tensor, request);
  }
  template <bool kTimed>
  [[gnu::always_inline]] void request(Writer& to, const OfBuffer& of, std::uint32_t tensor,
                                      std::int64_t bytes, Time at) {
    if (bytes <= 0) {
      return;
    }
    const std::uint32_t here = to.recorded;
    const std::uint32_t number = tensor - of.first;
    if (number == of.taken && given_up_) {
      take(*given_up_, bytes, of.stream, here);
    }
    if (number == of.handed) {
      made_ = here;
    }
    to.last[tensor] = Last::request;
    add<kTimed>(to, {bytes, tensor, of.stream, of.category, true}, at, at);
  }
  // A tensor may have been given up within its pass, or never been made: its release does nothing.
  template <bool kTimed>
  [[gnu::always_inline]] void release(Writer& to, const OfBuffer& of, std::uint32_t tensor, Time at,
                                      Time safe) {
    const Last last = to.last[tensor];
    if (last == Last::release) {
      return;
    }
    const std::uint32_t here = to.recorded;
    if (last == Last::none) {
      leading_.push_back(here);
    } else if (tensor - of.first == of.handed && safe <= at) {
      given_up_ = Handed{made_, here, 0};
    }
    to.last[tensor] = Last::release;
    blocks_wait_ |= kTimed && safe > at;
    add<kTimed>(to, {0, tensor, of.stream, of.category, false}, at, safe);
  }
  template <bool kTimed>
  [[gnu::always_inline]] static void add(Writer& to, const Call& c, Time at, Time safe) {
    to.calls[to.recorded] = c;
    to.places[to.recorded] = to.place;
    if constexpr (kTimed) {
      to.at[to.recorded] = at;
      to.safe[to.recorded] = safe;
    }
    ++to.recorded;
  }
  // The tensor that a pass gave up is taken by the request at `here`, if that is of its kind.
  void take(Handed handed, std::int64_t bytes, std::uint8_t stream, std::uint32_t here) {
    const Call& made = out_.tape.calls[handed.made];
    if (made.bytes == bytes && made.stream == stream) {
      joined_.push_back({handed.made, handed.released, here});
      given_up_.reset();
    }
  }

  // What one pass hands to the next is one tensor, of that pass from the start: its release and the
  // request in the next pass go. That pass may hand it on; so the last one's comes first.
  void join_handed_tensors() {
    std::vector<std::uint32_t> gone;
    for (auto at = joined_.rbegin(); at != joined_.rend(); ++at) {
      const Handed& h = *at;
      Call& made = out_.tape.calls[h.made];
      const Call& taken = out_.tape.calls[h.taken];
      made.tensor = taken.tensor;
      made.category = taken.category;
      gone.push_back(h.released);
      gone.push_back(h.taken);
    }
    std::sort(gone.begin(), gone.end());
    remove_calls(gone);
    for (std::uint32_t& position : leading_) {
      position -= before(gone, position);
    }
  }

  static std::uint32_t before(const std::vector<std::uint32_t>& sorted, std::uint32_t position) {
    return static_cast<std::uint32_t>(std::lower_bound(sorted.begin(), sorted.end(), position) -
                                      sorted.begin());
  }

  // ---------------------------------------------------------------- what the allocator sees of it
  // A release that is its tensor's first call frees what the step before left, if that left any.
  void drop_idle_releases() {
    std::vector<Call>& calls = out_.tape.calls;
    const auto idle = [&](std::uint32_t position) {
      return last_[calls[position].tensor] == Last::release;
    };
    leading_.erase(
        std::remove_if(leading_.begin(), leading_.end(), [&](auto i) { return !idle(i); }),
        leading_.end());
    remove_calls(leading_);
  }

  // The calls at these positions, in ascending order.
  void remove_calls(const std::vector<std::uint32_t>& gone) {
    if (gone.empty()) {
      return;
    }
    std::vector<Call>& calls = out_.tape.calls;
    const auto end = static_cast<std::uint32_t>(calls.size());
    std::uint32_t to = gone.front();
    for (std::size_t k = 0; k < gone.size(); ++k) {
      const std::uint32_t from = gone[k] + 1;
      const std::uint32_t until = k + 1 < gone.size() ? gone[k + 1] : end;
      const auto close_up = [&](auto& of) {
        std::copy(of.begin() + from, of.begin() + until, of.begin() + to);
      };
      close_up(calls);
      close_up(out_.notes.place);
      if (timed_) {
        close_up(out_.notes.at);
        close_up(out_.notes.safe);
      }
      to += until - from;
    }
    if (lazy_at_) {
      *lazy_at_ -= before(gone, *lazy_at_);
    }
    resize(to);
  }

  // The position of the first request that finds each waiting block free.
  void find_safe_positions() {
    using Waiting = std::pair<Time, std::uint32_t>;  // free from, position
    const std::vector<Call>& calls = out_.tape.calls;
    std::vector<std::uint32_t>& safe = out_.tape.safe;
    safe.clear();
    if (!blocks_wait_) {
      return;
    }
    safe.resize(calls.size(), 0);
    const TapeNotes& notes = out_.notes;
    std::vector<Waiting> waiting;  // a heap, the first on top
    const auto later = [](const Waiting& a, const Waiting& b) { return a > b; };
    const auto free_until = [&](Time now, std::uint32_t position) {
      while (!waiting.empty() && waiting.front().first <= now) {
        safe[waiting.front().second] = position;
        std::pop_heap(waiting.begin(), waiting.end(), later);
        waiting.pop_back();
      }
    };
    const auto steps = static_cast<std::uint32_t>(calls.size() + 1);
    for (std::uint32_t i = 0; i < calls.size(); ++i) {
      if (lazy_at_ == i) {
        free_until(lazy_time_, i);
      }
      if (calls[i].request) {
        free_until(notes.at[i], i);
      } else if (notes.safe[i] > notes.at[i]) {
        waiting.emplace_back(notes.safe[i], i);
        std::push_heap(waiting.begin(), waiting.end(), later);
      }
    }
    for (std::uint32_t k = 1; k < kMostStepsWaited && !waiting.empty(); ++k) {
      for (std::uint32_t i = 0; i < calls.size() && !waiting.empty(); ++i) {
        if (calls[i].request) {
          free_until(notes.at[i] + k * notes.period, k * steps + i);
        }
      }
    }
    for (const auto& [time, position] : waiting) {
      safe[position] = kMostStepsWaited * steps;
    }
  }

  void record_first_step() {
    Tape& tape = out_.tape;
    const auto end = static_cast<std::uint32_t>(tape.calls.size());
    tape.own.clear();
    tape.first.clear();
    find_later_tensors();
    make_model();
    make_persistent(false);
    make_initial();
    Call extra;
    extra.tensor = tape.tensors;
    extra.bytes = p_.first_step_extra.count();
    if (extra.bytes > 0) {
      ++tape.tensors;
      extra.request = true;
      tape.own.push_back(extra);
    }
    close_own(0);
    find_first_step_calls();
    const std::uint32_t lazy_at = lazy_at_.value_or(end);
    play_calls(0, lazy_at);
    if (lazy_at_) {
      make_persistent(true);
      close_own(lazy_at);
    }
    play_calls(lazy_at, end);
    if (extra.bytes > 0) {
      extra.request = false;
      tape.own.push_back(extra);
    }
    if (!lazy_at_) {
      make_persistent(true);
    }
    make_later();
    close_own(end);
  }

  // What has been added to the first step's own calls becomes a stretch.
  void close_own(std::uint32_t position) {
    std::uint32_t begin = 0;
    for (const Stretch& s : out_.tape.first) {
      begin = s.own ? s.end : begin;
    }
    const auto end = static_cast<std::uint32_t>(out_.tape.own.size());
    out_.tape.first.push_back({begin, end, position, true});
  }

  // Calls of tensors that the first step has in place of others, each ahead of a position.
  //
  // LAW  All other calls of the first step are those of every step, in their order: places of
  //      their tensors are the same in both.
  void find_first_step_calls() {
    if (p_.first_steps.empty()) {
      return;
    }
    replace_tensors();
    RecordedTape recorded;
    Recorder(p_, trace_, out_.notes.period, recorded, false, Occasion::first_step).record_calls();
    const std::uint32_t own = script_.first.back();
    const std::vector<Call>& calls = out_.tape.calls;
    std::uint32_t position = 0;
    for (const Call& c : recorded.tape.calls) {
      if (c.tensor >= own) {
        first_step_.push_back({position, c});
        first_step_.back().call.tensor += out_.tape.tensors - own;
        continue;
      }
      if (out_.tape.later[c.tensor] != 0) {
        continue;
      }
      while (position < calls.size() && out_.tape.later[calls[position].tensor] != 0) {
        ++position;
      }
      STEPCAST_CHECK(position < calls.size() && calls[position] == c,
                     "the first step's calls in the order of every step's");
      ++position;
    }
    out_.tape.tensors += recorded.tape.tensors - own;
  }
  // Tensors in whose place the first step has others.
  void replace_tensors() {
    std::vector<std::uint8_t>& later = out_.tape.later;
    later.resize(script_.first.back(), 0);
    for (BufferIndex i; i < p_.buffers.size(); ++i) {
      if (p_.buffers[i].first_step != program::kNone) {
        std::fill(later.begin() + script_.first[i], later.begin() + end_of(i), 1);
      }
    }
  }
  // The calls between two positions, with those of the first step alone.
  void play_calls(std::uint32_t begin, std::uint32_t end) {
    while (woven_ < first_step_.size() && first_step_[woven_].position <= end) {
      const std::uint32_t at = first_step_[woven_].position;
      out_.tape.first.push_back({begin, at, 0, false});
      for (; woven_ < first_step_.size() && first_step_[woven_].position == at; ++woven_) {
        out_.tape.own.push_back(first_step_[woven_].call);
      }
      close_own(at);
      begin = at;
    }
    out_.tape.first.push_back({begin, end, 0, false});
  }

  void find_later_tensors() {
    std::vector<std::uint8_t>& out = out_.tape.later;
    out.clear();
    for (BufferIndex i; i < p_.buffers.size(); ++i) {
      if (p_.buffers[i].later && !p_.buffers[i].persistent) {
        out.resize(script_.first.back(), 0);
        std::fill(out.begin() + script_.first[i], out.begin() + script_.first[i + 1], 1);
      }
    }
  }

  // Tensors that making the model alone needs come behind all others.
  void make_model() {
    Tape& tape = out_.tape;
    tape.making.clear();
    const std::uint32_t temporary = tape.tensors;
    for (const program::Making& m : p_.making) {
      const bool stands = m.buffer != program::kNone;
      const std::uint32_t tensor = m.tensor + (stands ? script_.first[m.buffer] : temporary);
      Call c;
      if (stands) {
        c = call_of(m.buffer, tensor, true);
        made_with_model_.resize(temporary, false);
        made_with_model_[tensor] = true;
      }
      c.tensor = tensor;
      c.bytes = m.bytes.count();
      c.request = c.bytes > 0;
      tape.making.push_back(c);
      tape.tensors = std::max(tape.tensors, tensor + 1);
    }
  }

  void make_persistent(bool lazy) {
    for (BufferIndex i; i < p_.buffers.size(); ++i) {
      const Buffer& b = p_.buffers[i];
      const bool ahead = b.initial && b.among_persistent && !lazy;
      if (ahead || (b.persistent && !b.later && b.lazy == lazy)) {
        make_tensors(i);
      }
    }
  }
  // What stands from the second step on.
  void make_later() {
    for (BufferIndex i; i < p_.buffers.size(); ++i) {
      if (p_.buffers[i].persistent && p_.buffers[i].later) {
        make_tensors(i);
      }
    }
  }
  void make_tensors(BufferIndex buffer) {
    if (p_.buffers[buffer].place != Place::device) {
      return;
    }
    for (std::uint32_t t = script_.first[buffer]; t < script_.first[buffer + 1]; ++t) {
      Call c = call_of(buffer, t, true);
      c.bytes = bytes_of(buffer, t);
      const bool stands = t < made_with_model_.size() && made_with_model_[t];
      if (c.bytes > 0 && !stands) {
        out_.tape.own.push_back(c);
      }
    }
  }

  void make_initial() {
    for (BufferIndex i; i < p_.buffers.size(); ++i) {
      if (!p_.buffers[i].initial) {
        continue;
      }
      Call c = call_of(i, script_.first[i], true);
      if (!p_.buffers[i].among_persistent) {
        c.bytes = p_.buffers[i].bytes.count();
        out_.tape.own.push_back(c);
      }
      c.request = false;
      c.bytes = 0;
      out_.tape.own.push_back(c);
    }
  }

  const Program& p_;
  const std::vector<MemoryEvent>& trace_;
  const bool timed_;
  const Occasion occasion_;
  const Script script_;
  std::vector<OfBuffer> of_;
  Writer to_;
  std::optional<std::uint32_t> lazy_at_;
  Time lazy_time_{0};
  bool blocks_wait_ = false;
  std::vector<Handed> joined_;
  std::optional<Handed> given_up_;  // the last one that is not taken yet
  std::uint32_t made_ = 0;          // the last one's request
  struct Woven {                    // a call of the first step alone
    std::uint32_t position = 0;
    Call call;
  };
  std::vector<Woven> first_step_;
  std::vector<bool> made_with_model_;   // by tensor
  std::size_t woven_ = 0;               // of these, calls that have been placed
  std::vector<Last> last_;              // by tensor
  std::vector<std::uint32_t> leading_;  // positions of releases that are their tensor's first call
  RecordedTape& out_;
};

}  // namespace

void record_tape(const Program& program, const std::vector<MemoryEvent>& trace, Time period,
                 RecordedTape& out) {
  Recorder(program, trace, period, out, blocks_wait(trace)).record();
}

void set_sizes(const Program& program, RecordedTape& recorded) {
  const TapeNotes& notes = recorded.notes;
  const auto size_of = [&](std::uint32_t tensor) {
    const BufferIndex buffer = notes.buffer[tensor];
    const Buffer& b = program.buffers[buffer];
    return b.blocks == 0
               ? b.bytes.count()
               : program.blocks[b.first_block + tensor - notes.first[buffer]].bytes.count();
  };
  for (Call& c : recorded.tape.calls) {
    if (c.request) {
      c.bytes = size_of(c.tensor);
    }
  }
  for (std::size_t k = 0; k < program.making.size(); ++k) {
    recorded.tape.making[k].bytes = program.making[k].bytes.count();
  }
  for (Call& c : recorded.tape.own) {
    if (c.tensor >= notes.buffer.size()) {  // the one that only the first step needs
      c.bytes = program.first_step_extra.count();
    } else if (c.request) {
      const Buffer& b = program.buffers[notes.buffer[c.tensor]];
      c.bytes = b.initial && !b.among_persistent ? b.bytes.count() : size_of(c.tensor);
    }
  }
}

TracePlace place_of(const TapeNotes& notes, std::uint32_t position) {
  if (position < notes.place.size()) {
    return notes.place[position];
  }
  return {program::kNone, 0};
}

Time time_at(const std::vector<MemoryEvent>& trace, TracePlace place) {
  if (trace.empty()) {
    return Time{0};
  }
  if (place.event >= trace.size()) {
    return trace.back().time;
  }
  const MemoryEvent& begin = trace[place.event];
  std::size_t end = place.event;
  while (place.fraction > 0 && end + 1 < trace.size() &&
         (end == place.event || trace[end].buffer != begin.buffer || trace[end].allocate)) {
    ++end;
  }
  return Span(begin.time, trace[end].time).at(place.fraction);
}

bool blocks_wait(const std::vector<MemoryEvent>& trace) {
  return std::any_of(trace.begin(), trace.end(),
                     [](const MemoryEvent& e) { return e.safe > e.time; });
}

RecordedTape record_tape(const Program& program, const std::vector<MemoryEvent>& trace,
                         Time period) {
  RecordedTape out;
  Recorder(program, trace, period, out, true).record();
  return out;
}

}  // namespace stepcast::memory
