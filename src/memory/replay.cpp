#include "stepcast/memory/replay.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "run.h"

namespace stepcast::memory {

using program::Buffer;
using program::Program;

namespace {

constexpr int kMaxSteps = 6;  // of a job whose reserved memory grows and grows

int most_steps(const ReplayOptions& options) { return std::max(kMaxSteps, options.steps); }

// A live tensor.
struct Held {
  BlockId id = program::kNone;
  std::int64_t bytes = 0;  // of its block
};

// A run whose last step is recorded, call by call.
class Recording {
 public:
  Recording(const Program& p, const RecordedTape& recorded, const AllocatorOptions& options)
      : p_(p),
        notes_(recorded.notes),
        run_(recorded.tape, options),
        since_(recorded.tape.tensors, Time{0}) {}

  // `steps`: at least two.
  Replayed record(int steps) {
    step_ = steps - 1;
    run_.play_to(
        {step_, 0}, [](const Call&, std::uint32_t) {},
        [this](const Call& c, std::uint32_t at) { stamp(c, at, run_.steps()); });
    const std::vector<Held> held = held_now();
    const std::vector<Time> since = since_;
    segments_seen_ = run_.allocator().segment_events().size();
    clock_ = run_.clock();
    run_.play_to(
        {steps, 0}, [this](const Call& c, std::uint32_t) { look_at(c); },
        [this](const Call& c, std::uint32_t at) { add(c, at); });
    Replayed out = run_.result(notes_);
    out.at_end = standing(held_now(), since_);
    out.at_peak = at_peak(held, since);
    out.segments = run_.allocator().segments();
    out.events = std::move(events_);
    out.segment_events = std::move(segment_events_);
    return out;
  }

 private:
  // A tensor stands since it was last requested.
  void stamp(const Call& c, std::uint32_t position, int step) {
    if (c.request) {
      since_[c.tensor] = notes_.at[position] + step * notes_.period;
    }
  }

  std::uint32_t block_of(std::uint32_t tensor) const {
    const program::BufferIndex buffer = notes_.buffer[tensor];
    const Buffer& b = p_.buffers[buffer];
    return b.blocks == 0 ? program::kNone : b.first_block + tensor - notes_.first[buffer];
  }
  std::int64_t requested(std::uint32_t tensor) const {
    const std::uint32_t block = block_of(tensor);
    return (block == program::kNone ? p_.buffers[notes_.buffer[tensor]].bytes
                                    : p_.blocks[block].bytes)
        .count();
  }

  Held held_now(std::uint32_t tensor) const {
    const BlockId id = run_.held()[tensor];
    return {id, id == program::kNone ? 0 : run_.allocator().size(id)};
  }
  std::vector<Held> held_now() const {
    std::vector<Held> out;
    for (std::uint32_t t = 0; t < run_.held().size(); ++t) {
      out.push_back(held_now(t));
    }
    return out;
  }

  // The block of a tensor, before a release or behind a request.
  void look_at(const Call& c) {
    held_ = held_now(c.tensor);
    address_ = held_.id == program::kNone ? 0 : run_.allocator().address(held_.id);
  }

  void add(const Call& c, std::uint32_t position) {
    if (c.request) {
      look_at(c);
    } else if (held_.id == program::kNone) {
      return;
    }
    stamp(c, position, step_);
    const CachingAllocator& allocator = run_.allocator();
    const auto& segments = allocator.segment_events();
    for (; segments_seen_ < segments.size(); ++segments_seen_) {
      segment_events_.push_back(
          {segments[segments_seen_], static_cast<std::uint32_t>(events_.size())});
      Time& time = segment_events_.back().event.time;
      time = notes_.at[static_cast<std::size_t>(time.count() - clock_)];
    }
    events_.push_back({notes_.at[position], held_.id, notes_.buffer[c.tensor], block_of(c.tensor),
                       notes_.place[position].event, held_.bytes, requested(c.tensor), address_,
                       notes_.safe[position], c.request, allocator.now()});
    calls_.push_back({c.tensor, position});
  }

  std::vector<Tensor> standing(const std::vector<Held>& held,
                               const std::vector<Time>& since) const {
    std::vector<Tensor> out;
    for (std::uint32_t t = 0; t < notes_.buffer.size(); ++t) {
      if (held[t].id != program::kNone) {
        out.push_back({held[t].id, notes_.buffer[t], block_of(t), held[t].bytes, requested(t),
                       since[t] - step_ * notes_.period});
      }
    }
    return out;
  }

  // Starts with the tensors live at the step's start and goes on to the call at the peak.
  std::vector<Tensor> at_peak(std::vector<Held> held, std::vector<Time> since) const {
    const auto peak = run_.peak_position();
    for (std::size_t k = 0; peak && k < calls_.size() && calls_[k].position <= *peak; ++k) {
      const TensorEvent& e = events_[k];
      const std::uint32_t tensor = calls_[k].tensor;
      held[tensor] = {e.allocate ? e.id : BlockId{program::kNone}, e.bytes};
      since[tensor] = e.time + step_ * notes_.period;
    }
    return standing(held, since);
  }

  const Program& p_;
  const TapeNotes& notes_;
  Run run_;
  int step_ = 0;             // the recorded one
  std::vector<Time> since_;  // by tensor
  Held held_;                // of the call under way
  std::int64_t address_ = 0;
  std::int64_t clock_ = 0;  // the allocator's at the recorded step's start
  std::size_t segments_seen_ = 0;
  std::vector<TensorEvent> events_;
  std::vector<SegmentEvent> segment_events_;
  struct Place {
    std::uint32_t tensor = 0;
    std::uint32_t position = 0;
  };
  std::vector<Place> calls_;  // parallel to the events
};

}  // namespace

Replayed replay(const Program& program, const std::vector<program::MemoryEvent>& trace,
                const ReplayOptions& options) {
  const RecordedTape recorded = record_tape(program, trace, options.period);
  Run run(recorded.tape, options.allocator);
  run.play_steps(options.steps, most_steps(options));
  if (!options.record || run.out_of_memory()) {
    return run.result(recorded.notes);
  }
  return Recording(program, recorded, options.allocator).record(std::max(2, run.steps()));
}

// ---------------------------------------------------------------- under several limits
struct Replays::State {
  const RecordedTape& recorded;
  ReplayOptions options;
  Run whole;
  // A run without a limit, ahead of the first request that is refused under any limit of interest.
  std::optional<Run> ahead;
  Mark ahead_at;
  // What came of the runs under limits, and the range of limits under which it would come of them.
  struct Limited {
    CachingAllocator::LimitRange limits;
    Replayed of;
  };
  std::vector<Limited> limited;
  std::vector<Run> between;  // those runs ahead of their steps

  // Where a run within `limit` first differs from the whole one.
  Mark parting(Bytes limit) const {
    if (options.allocator.gc_threshold > 0) {  // collects before it comes near the limit
      return {};
    }
    for (const Growth& g : whole.growth()) {
      if (g.reserved > limit.count()) {
        return g.at;
      }
    }
    return {whole.steps(), 0};
  }
  void go_to(Mark at) {
    if (!ahead || ahead_at > at) {
      ahead.emplace(recorded.tape, options.allocator);
    }
    ahead->play_to(at);
    ahead_at = at;
  }
  // Within `limit`, all requests so far have had the outcome that they had.
  bool holds(const CachingAllocator::LimitRange& range, Bytes limit) const {
    return options.allocator.gc_threshold <= 0 && range.from <= limit.count() &&
           limit.count() < range.below;
  }
  // A run that was the same within `limit` as far as it goes; `ahead_of`: at most `limit`, and
  // further limits of interest are not below it.
  Run start(Bytes limit, Bytes ahead_of) {
    const Run* furthest = nullptr;
    for (const Run& run : between) {
      if (holds(run.allocator().limits(), limit) &&
          (furthest == nullptr || run.steps() > furthest->steps())) {
        furthest = &run;
      }
    }
    if (furthest != nullptr) {
      return *furthest;
    }
    go_to(parting(ahead_of));
    return *ahead;
  }
  const Replayed& within(Bytes limit, Bytes ahead_of) {
    for (const Limited& known : limited) {
      if (holds(known.limits, limit)) {
        return known.of;
      }
    }
    Run run = start(limit, ahead_of);
    run.set_limit(limit);
    run.play_steps(options.steps, most_steps(options), [&] { between.push_back(run); });
    limited.push_back({run.allocator().limits(), run.result(recorded.notes)});
    return limited.back().of;
  }
};

Replays::Replays(const RecordedTape& recorded, const ReplayOptions& options)
    : state_(std::make_unique<State>(
          State{recorded, options, Run(recorded.tape, options.allocator), {}, {}, {}, {}})) {
  state_->whole.play_steps(options.steps, most_steps(options));
}
Replays::~Replays() = default;

Replayed Replays::without_limit() const { return state_->whole.result(state_->recorded.notes); }

Replayed Replays::within(Bytes limit) { return state_->within(limit, limit); }

bool Replays::runs(Bytes limit, Bytes short_of) {
  return !state_->within(limit, short_of).out_of_memory;
}

}  // namespace stepcast::memory
