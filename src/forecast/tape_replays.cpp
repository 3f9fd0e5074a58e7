#include "tape_replays.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>

#include "stepcast/base/threads.h"

namespace stepcast::forecast {
namespace {

using program::Program;

// Bisections of the bytes that the allocator caches at the peak.
constexpr int kNeededSteps = 4;
// Outside these shares of the capacity, what a process could give back does not change the answer:
// the deviation of memory is some per cent.
constexpr double kNearCapacity = 0.75;
constexpr double kFarAboveCapacity = 1.25;
// Allocations and releases of all ranks that are worth a thread, whose start takes as long as some
// thousand calls of a replay.
constexpr std::size_t kWorthThreads = 20'000;

// A rank's tape, recorded when it is first asked for; or, with a memo, made of a neighbour's.
class RankTape {
 public:
  RankTape(const TracedRank& rank, Time period, memory::RecordedTape& storage, ReplayMemo* memo)
      : p_(*rank.program),
        trace_(*rank.trace),
        period_(period),
        storage_(storage),
        memo_(memo),
        waits_(memory::blocks_wait(trace_)) {
    if (!waits_ && !*rank.source) {
      *rank.source = digests_of(p_, trace_);
    }
    source_ = *rank.source;
  }

  const memory::RecordedTape& recorded() {
    if (tape_ == nullptr) {
      tape_ = &record();
    }
    return *tape_;
  }
  // Of the tape where a block waits; else of what it is recorded from, which is less and is at hand
  // for ranks whose tapes are not recorded.
  DigestPair digests() { return waits_ ? digests_of(recorded().tape) : source_->all; }

 private:
  memory::RecordedTape& record() {
    const bool shares = memo_ != nullptr && !waits_ && p_.first_steps.empty();
    if (memory::RecordedTape* known = shares ? memo_->find_tape(source_->form) : nullptr) {
      memory::set_sizes(p_, *known);
      return *known;
    }
    memory::RecordedTape* const kept = shares ? memo_->keep_tape(source_->form) : nullptr;
    memory::RecordedTape& out = kept != nullptr ? *kept : storage_;
    memory::record_tape(p_, trace_, period_, out);
    return out;
  }

  const program::Program& p_;
  const std::vector<program::MemoryEvent>& trace_;
  Time period_;
  memory::RecordedTape& storage_;
  ReplayMemo* memo_;
  bool waits_ = false;
  std::optional<SourceDigests> source_;  // where no block waits
  memory::RecordedTape* tape_ = nullptr;
};

// What allocators do with one tape: what is known of it, and what has to be replayed for more.
class TapeReplay {
 public:
  TapeReplay(RankTape& tape, const memory::ReplayOptions& options)
      : tape_(tape), options_(options) {}

  // Without a limit, unless that is known of another job.
  const UnlimitedReplay& unlimited();
  void take(const UnlimitedReplay& known) { unlimited_ = known; }
  TapeMemory memory_of(Bytes outside, Bytes capacity);
  // Whether it runs within a limit; `short_of`: further limits of interest are not below.
  bool runs(Bytes limit, Bytes short_of, TapeMemory& known);

 private:
  memory::Replays& replays() {
    if (!replays_) {
      replays_.emplace(tape_.recorded(), options_);
    }
    return *replays_;
  }
  // As if nothing lay outside the allocator.
  RankMemory memory_of(const memory::Replayed& r) const;
  std::optional<memory::TracePlace> peak_of(const memory::Replayed& r);

  RankTape& tape_;
  const memory::ReplayOptions& options_;
  std::optional<memory::Replays> replays_;
  std::optional<UnlimitedReplay> unlimited_;
};

RankMemory TapeReplay::memory_of(const memory::Replayed& r) const {
  RankMemory m;
  m.allocated = Bytes(r.peak.allocated);
  m.active = Bytes(r.peak.active);
  m.reserved = Bytes(std::max(r.first.reserved, r.peak.reserved));
  m.process = m.reserved;
  m.steady = Bytes(r.steady.allocated);
  m.first = Bytes(r.first.allocated);
  m.by_category = r.at_peak_by_category;
  m.retries = r.retries;
  return m;
}

std::optional<memory::TracePlace> TapeReplay::peak_of(const memory::Replayed& r) {
  if (!r.peak_position) {
    return std::nullopt;
  }
  return memory::place_of(tape_.recorded().notes, *r.peak_position);
}

const UnlimitedReplay& TapeReplay::unlimited() {
  if (!unlimited_) {
    const memory::Replayed r = replays().without_limit();
    unlimited_ = UnlimitedReplay{memory_of(r), Bytes(r.peak.reserved), peak_of(r)};
  }
  return *unlimited_;
}

TapeMemory TapeReplay::memory_of(Bytes outside, Bytes capacity) {
  const UnlimitedReplay& without = unlimited();
  TapeMemory out{without.memory, without.memory.reserved, without.peak, {}};
  if (without.peak_reserved + outside > capacity) {
    // The driver refuses to allocate beyond the capacity, so the allocator first frees its cache.
    // Memory that does not fit even then is reported without a limit.
    out.memory.fits = false;
    if (capacity > outside) {
      const memory::Replayed limited = replays().within(capacity - outside);
      if (!limited.out_of_memory) {
        out.memory = memory_of(limited);
        out.peak = peak_of(limited);
      }
    }
  }
  out.memory.process = out.memory.reserved + outside;
  return out;
}

bool TapeReplay::runs(Bytes limit, Bytes short_of, TapeMemory& known) {
  const auto at = known.runs_within.find(limit);
  if (at != known.runs_within.end()) {
    return at->second;
  }
  const bool runs = replays().runs(limit, short_of);
  known.runs_within.emplace(limit, runs);
  return runs;
}

// Whether the least process memory may be of interest.
bool near_capacity(const TapeMemory& known, Bytes outside, Bytes capacity) {
  const auto shares = [&](Bytes bytes) {
    return static_cast<double>((bytes + outside).count()) / static_cast<double>(capacity.count());
  };
  return shares(known.unlimited) >= kNearCapacity &&
         shares(known.memory.active) <= kFarAboveCapacity;
}

// The least process memory in which a tape runs, between what its tensors take and what it reserves
// without a limit; more than that where it does not matter to `least`. LAW: at most `capacity`
// exactly where it fits.
Bytes least_process(TapeReplay& replay, TapeMemory& known, Bytes outside, Bytes capacity,
                    const LeastLikely& least) {
  const RankMemory& m = known.memory;
  if (!near_capacity(known, outside, capacity)) {
    return known.unlimited + outside;
  }
  const double deviation = least.deviation(m);
  Bytes enough = m.fits ? std::min(known.unlimited, capacity - outside) : known.unlimited;
  Bytes short_of = m.fits ? m.active : std::max(m.active, capacity - outside);
  for (int i = 0;
       i < kNeededSteps && enough > short_of && least.may_be(enough + outside, deviation, capacity);
       ++i) {
    const Bytes limit = short_of + (enough - short_of) / 2;
    (replay.runs(limit, short_of, known) ? enough : short_of) = limit;
  }
  return enough + outside;
}

// When the peak comes: the host may be ahead of the step, in every period of which it recurs.
Time time_of(std::optional<memory::TracePlace> peak, const std::vector<program::MemoryEvent>& trace,
             Time period) {
  const Time at = peak ? memory::time_at(trace, *peak) : Time{0};
  if (period <= Time{0}) {
    return Time{0};
  }
  const Time within = at % period;
  return within < Time{0} ? within + period : within;
}

}  // namespace

// What is known of one rank's tape, and the tape itself, once it is recorded.
class TapeReplays::Replay {
 public:
  // `memo`: whose tapes serve it; none: its own does.
  Replay(const TracedRank& rank, Time period, const memory::ReplayOptions& options,
         std::unique_ptr<memory::RecordedTape> storage, ReplayMemo* memo)
      : outside_(rank.program->outside_allocator),
        capacity_(rank.capacity),
        storage_(storage ? std::move(storage) : std::make_unique<memory::RecordedTape>()),
        tape_(rank, period, *storage_, memo),
        replay_(tape_, options),
        key_{{tape_.digests(), options.allocator.expandable_segments,
              options.allocator.oldest_segment_first},
             outside_,
             capacity_} {}

  const ReplayKey& key() const { return key_; }
  void take(const UnlimitedReplay* known) {
    if (known != nullptr) {
      replay_.take(*known);
    }
  }
  const UnlimitedReplay& unlimited() { return replay_.unlimited(); }
  TapeMemory memory() { return replay_.memory_of(outside_, capacity_); }
  Bytes least(TapeMemory& known, const LeastLikely& least) {
    return least_process(replay_, known, outside_, capacity_, least);
  }
  bool may_be_limited(const TapeMemory& known) const {
    return near_capacity(known, outside_, capacity_);
  }
  // For another rank. This one is over.
  std::unique_ptr<memory::RecordedTape> give_storage() { return std::move(storage_); }

 private:
  Bytes outside_;
  Bytes capacity_;
  std::unique_ptr<memory::RecordedTape> storage_;
  RankTape tape_;
  TapeReplay replay_;
  ReplayKey key_;
};

TapeReplays::TapeReplays(memory::ReplayOptions options, ReplayMemo& memo,
                         const MemoryDoubts& doubts)
    : options_(std::move(options)), memo_(memo), least_(doubts) {}
TapeReplays::~TapeReplays() = default;

void TapeReplays::replay_ahead(const std::vector<TracedRank>& ranks, Time period,
                               std::size_t threads, const Stop* stop) {
  std::size_t events = 0;
  for (const TracedRank& rank : ranks) {
    events += rank.trace->size();
  }
  const auto most = std::min(threads, ranks.size());
  if (most < 2 || events < kWorthThreads) {
    return;
  }
  std::atomic<std::size_t> next{0};
  std::mutex mutex;  // of what follows
  std::set<ReplayKey> taken;
  struct Found {
    ReplayKey key;
    TapeMemory memory;
    UnlimitedReplay unlimited;
  };
  std::vector<Found> found;
  const auto replay_next = [&](std::unique_ptr<memory::RecordedTape>& storage) {
    const std::size_t i = next++;
    if (i >= ranks.size()) {
      return false;
    }
    check(stop);
    auto replay = std::make_unique<Replay>(ranks[i], period, options_, std::move(storage), nullptr);
    {
      const std::lock_guard lock(mutex);
      if (memo_.find(replay->key()) != nullptr || !taken.insert(replay->key()).second) {
        storage = replay->give_storage();
        return true;
      }
      replay->take(memo_.find(replay->key().tape));
    }
    TapeMemory known = replay->memory();
    const bool keep = i == 0 && replay->may_be_limited(known);
    const std::lock_guard lock(mutex);
    found.push_back({replay->key(), std::move(known), replay->unlimited()});
    if (keep) {
      ahead_.emplace(Which{ranks[i].program, ranks[i].capacity}, std::move(replay));
    } else {
      storage = replay->give_storage();
    }
    return true;
  };
  on_threads(most, [&](const std::atomic<bool>& failed) {
    std::unique_ptr<memory::RecordedTape> storage;
    while (!failed && replay_next(storage)) {
    }
  });
  for (Found& one : found) {
    memo_.keep(one.key.tape, one.unlimited);
    memo_.keep(one.key, std::move(one.memory));
  }
}

RankMemory TapeReplays::memory_of(const TracedRank& rank, Time period) {
  const auto at = ahead_.find({rank.program, rank.capacity});
  auto replay = at != ahead_.end()
                    ? std::move(at->second)
                    : std::make_unique<Replay>(rank, period, options_, std::move(storage_), &memo_);
  if (at != ahead_.end()) {
    ahead_.erase(at);
  }
  TapeMemory* known = memo_.find(replay->key());
  if (known == nullptr) {
    replay->take(memo_.find(replay->key().tape));
    known = &memo_.keep(replay->key(), replay->memory());
    memo_.keep(replay->key().tape, replay->unlimited());
  }
  RankMemory m = known->memory;
  m.needed = replay->least(*known, least_);
  least_.note(m.needed, least_.deviation(m), rank.capacity);
  m.at = time_of(known->peak, *rank.trace, period);
  storage_ = replay->give_storage();
  return m;
}

}  // namespace stepcast::forecast
