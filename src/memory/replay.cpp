#include "stepcast/memory/replay.h"

#include <algorithm>
#include <optional>

#include "script.h"

namespace stepcast::memory {

using program::Buffer;
using program::MemoryEvent;
using program::Place;
using program::Program;

namespace {

// A live tensor; `since` counts from the start of the first step.
struct Held {
  BlockId id = program::kNone;
  Time since{0};
  std::int64_t bytes = 0;  // of its block
};

class Replay {
 public:
  Replay(const Program& p, const std::vector<MemoryEvent>& trace, const ReplayOptions& options)
      : p_(p),
        trace_(trace),
        options_(options),
        allocator_(options.allocator),
        script_(compile(p, trace)),
        held_(script_.first.back()) {
    const Time length = trace.empty() ? Time{1} : trace.back().time + Time{1};
    period_ = options.period > Time{0} ? options.period : length;
    // Events of the trace are the host's allocations and releases, one for one.
    const auto events = std::count_if(p.host.begin(), p.host.end(), [](const program::HostOp& op) {
      return op.kind == program::HostKind::allocate || op.kind == program::HostKind::release;
    });
    if (p.lazy_from && static_cast<std::size_t>(events) == trace.size()) {
      lazy_from_ = *p.lazy_from;
    }
  }

  // `most` steps; fewer if the last one reserved nothing more.
  Replayed run(int most) {
    std::int64_t before = -1;
    for (step_ = 0; step_ < most && !out_.out_of_memory; ++step_) {
      recording_ = options_.record && step_ + 1 == most;
      one_step();
      if (!options_.record && step_ + 1 >= options_.steps && out_.steady.reserved == before) {
        ++step_;
        break;
      }
      before = out_.steady.reserved;
    }
    out_.retries = allocator_.retries();
    if (recording_) {
      --step_;
      out_.at_end = standing(held_);
      out_.segments = allocator_.segments();
      fill_at_peak();
    }
    return std::move(out_);
  }
  int steps() const { return step_; }

 private:
  static constexpr std::size_t kBefore = static_cast<std::size_t>(-1);

  void one_step() {
    allocator_.reset_peak();
    begin_peak();
    at_ = Time{0};
    std::optional<BlockId> extra;
    if (step_ == 0) {
      make_persistent(false);
      if (p_.first_step_extra.count() > 0) {
        extra = allocator_.allocate(p_.first_step_extra.count(), 0, now());
        out_.out_of_memory = !extra;
      }
    }
    if (recording_) {
      at_begin_ = held_;
      segments_seen_ = allocator_.segment_events().size();
    }
    bool made = step_ > 0;
    for (event_ = 0; event_ < trace_.size() && !out_.out_of_memory; ++event_) {
      at_ = trace_[event_].time;
      if (!made && event_ == lazy_from_) {
        made = true;
        make_persistent(true);
      }
      play(trace_[event_]);
    }
    if (extra) {
      allocator_.release(*extra, now());
    }
    if (step_ == 0) {
      if (!made) {
        make_persistent(true);
      }
      out_.first = allocator_.peak();
    }
    out_.peak = allocator_.peak();
    out_.steady = allocator_.now();
    out_.peak.reserved = out_.steady.reserved;
  }

  void play(const MemoryEvent& e) {
    switch (script_.actions[event_]) {
      case Action::skip:
        break;
      case Action::allocate:
        allocate_all(e.buffer);
        break;
      case Action::release:
        for (std::uint32_t t = script_.first[e.buffer]; t < script_.first[e.buffer + 1]; ++t) {
          release(e.buffer, t, e.safe);
        }
        break;
      case Action::pass:
        play(script_.passes[script_.pass[event_]]);
        break;
    }
  }

  void play(const Pass& pass) {
    const Time begin = at_;
    const std::int64_t length = (trace_[pass.end].time - begin).count();
    const program::BufferIndex* roles = script_.roles.data() + pass.first_role;
    for (std::uint32_t k = 0; k < pass.calls; ++k) {
      const Call& c = script_.calls[pass.first_call + k];
      const program::BufferIndex buffer = roles[c.role];
      at_ = begin + Time((length >> 16) * c.fraction + (((length & 0xffff) * c.fraction) >> 16));
      if (c.allocate) {
        allocate(buffer, script_.first[buffer] + c.block, c.bytes);
      } else {
        release(buffer, script_.first[buffer] + c.block, at_);
      }
    }
  }

  Time now() const { return at_ + step_ * period_; }

  // Bytes as requested, by tensor.
  std::int64_t bytes_of(program::BufferIndex buffer, std::uint32_t tensor) const {
    const Buffer& b = p_.buffers[buffer];
    return b.blocks == 0 ? b.bytes.count()
                         : p_.blocks[b.first_block + tensor - script_.first[buffer]].bytes.count();
  }

  void make_persistent(bool lazy) {
    for (program::BufferIndex i; i < p_.buffers.size(); ++i) {
      const Buffer& b = p_.buffers[i];
      if (b.persistent && b.lazy == lazy && b.place == Place::device) {
        allocate_all(i);
      }
    }
  }

  void allocate_all(program::BufferIndex buffer) {
    for (std::uint32_t t = script_.first[buffer]; t < script_.first[buffer + 1]; ++t) {
      allocate(buffer, t, bytes_of(buffer, t));
    }
  }

  void allocate(program::BufferIndex buffer, std::uint32_t tensor, std::int64_t bytes) {
    if (bytes <= 0 || out_.out_of_memory) {
      return;
    }
    const Buffer& b = p_.buffers[buffer];
    const auto id = allocator_.allocate(bytes, b.stream, now());
    if (!id) {
      out_.out_of_memory = true;
      return;
    }
    const std::int64_t size = allocator_.size(*id);
    held_[tensor] = {*id, now(), size};
    live_[static_cast<std::size_t>(b.category)] += size;
    if (const std::int64_t allocated = allocator_.now().allocated; allocated > most_) {
      most_ = allocated;
      out_.at_peak_by_category = live_;
      out_.peak_at = at_;
      peak_event_ = out_.events.size();
    }
    if (recording_) {
      record(buffer, tensor, allocator_.address(*id), at_, true);
    }
  }

  void release(program::BufferIndex buffer, std::uint32_t tensor, Time safe) {
    Held& t = held_[tensor];
    if (t.id == program::kNone) {  // given up within its pass; or the step before made it
      return;
    }
    live_[static_cast<std::size_t>(p_.buffers[buffer].category)] -= t.bytes;
    const std::int64_t address = recording_ ? allocator_.address(t.id) : 0;
    allocator_.release(t.id, now(), safe + step_ * period_);
    if (recording_) {
      record(buffer, tensor, address, safe, false);
    }
    t.id = program::kNone;
  }

  void begin_peak() {
    most_ = allocator_.now().allocated;
    out_.at_peak_by_category = live_;
    out_.peak_at = Time{0};
    peak_event_ = kBefore;
  }

  // ---------------------------------------------------------------- the last step, recorded
  std::uint32_t block_of(program::BufferIndex buffer, std::uint32_t tensor) const {
    const Buffer& b = p_.buffers[buffer];
    return b.blocks == 0 ? program::kNone : b.first_block + tensor - script_.first[buffer];
  }

  void record(program::BufferIndex buffer, std::uint32_t tensor, std::int64_t address, Time safe,
              bool made) {
    const auto& segments = allocator_.segment_events();
    for (; segments_seen_ < segments.size(); ++segments_seen_) {
      out_.segment_events.push_back(
          {segments[segments_seen_], static_cast<std::uint32_t>(out_.events.size())});
      out_.segment_events.back().event.time -= step_ * period_;
    }
    const Held& t = held_[tensor];
    out_.events.push_back({at_, t.id, buffer, block_of(buffer, tensor), event_, t.bytes,
                           bytes_of(buffer, tensor), address, safe, made, allocator_.now()});
    changed_.push_back(tensor);
  }

  std::vector<Tensor> standing(const std::vector<Held>& held) const {
    std::vector<Tensor> out;
    for (program::BufferIndex b; b < p_.buffers.size(); ++b) {
      for (std::uint32_t t = script_.first[b]; t < script_.first[b + 1]; ++t) {
        if (held[t].id != program::kNone) {
          out.push_back({held[t].id, b, block_of(b, t), held[t].bytes, bytes_of(b, t),
                         held[t].since - step_ * period_});
        }
      }
    }
    return out;
  }

  // Starts with the tensors live at the step's start and goes on to the event at the peak.
  void fill_at_peak() {
    std::vector<Held> held = std::move(at_begin_);
    for (std::size_t k = 0; peak_event_ != kBefore && k <= peak_event_; ++k) {
      const TensorEvent& e = out_.events[k];
      held[changed_[k]] = {e.allocate ? e.id : BlockId{program::kNone}, e.time + step_ * period_,
                           e.bytes};
    }
    out_.at_peak = standing(held);
  }

  const Program& p_;
  const std::vector<MemoryEvent>& trace_;
  const ReplayOptions& options_;
  CachingAllocator allocator_;
  Script script_;
  std::vector<Held> held_;  // by tensor
  Time period_{1};
  int step_ = 0;
  std::uint32_t event_ = 0;  // of the trace, under way
  std::size_t lazy_from_ = kBefore;
  Time at_{0};  // its time, or within its pass
  std::array<std::int64_t, program::kMemoryCategories> live_{};
  std::int64_t most_ = 0;
  std::size_t peak_event_ = kBefore;
  bool recording_ = false;
  std::vector<Held> at_begin_;
  std::vector<std::uint32_t> changed_;  // tensors, parallel to the events
  std::size_t segments_seen_ = 0;
  Replayed out_;
};

}  // namespace

Replayed replay(const Program& program, const std::vector<MemoryEvent>& trace,
                const ReplayOptions& options) {
  constexpr int kMaxSteps = 6;  // of a job whose reserved memory grows and grows
  ReplayOptions plain = options;
  plain.record = false;
  const int most = std::max(kMaxSteps, options.steps);
  Replay first(program, trace, plain);
  if (!options.record) {
    return first.run(most);
  }
  first.run(most);  // which step is the last
  return Replay(program, trace, options).run(std::max(2, first.steps()));
}

}  // namespace stepcast::memory
