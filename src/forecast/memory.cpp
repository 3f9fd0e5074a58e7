#include "memory.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <optional>
#include <utility>
#include <vector>

#include "replay_memo.h"
#include "stepcast/memory/process.h"
#include "stepcast/memory/replay.h"

namespace stepcast::forecast {
namespace {

using program::Program;
using program::RankResult;
using program::Timeline;
using program::World;

RankMemory by_rule(const Program& p, const RankResult& r, Bytes capacity,
                   const memory::Request& request) {
  RankMemory m;
  memory::Request q = request;
  q.allocated = std::max(r.peak_allocated, r.first_step_peak);
  q.outside = p.outside_allocator;
  const memory::Amounts amounts = memory::amounts(q);
  m.allocated = r.peak_allocated;
  m.active = m.allocated;
  m.reserved = amounts.reserved;
  m.process = amounts.process;
  m.steady = r.steady;
  m.first = r.first_step_peak;
  std::transform(r.at_peak.begin(), r.at_peak.end(), m.by_category.begin(),
                 [](Bytes bytes) { return bytes.count(); });
  m.at = r.peak_at;
  m.fits = m.process <= capacity;
  m.needed = m.process;
  return m;
}

// Buffers that a compiler places when it builds the program: nothing is cached beyond them. Their
// places may leave gaps, which are not known here: by the most that is live at once.
RankMemory by_compiler(const Program& p, const RankResult& r, Bytes capacity) {
  memory::Request none;
  RankMemory m = by_rule(p, r, capacity, none);
  m.reserved = std::max(r.peak_allocated, r.first_step_peak);
  m.process = m.needed = m.reserved + p.outside_allocator;
  m.fits = m.process <= capacity;
  return m;
}

// Bisections of the bytes that the allocator caches at the peak.
constexpr int kNeededSteps = 4;
// Outside these shares of the capacity, what a process could give back does not change the answer:
// the deviation of memory is some per cent.
constexpr double kNearCapacity = 0.75;
constexpr double kFarAboveCapacity = 1.25;

// Whether a job fits is decided by the rank least likely to fit. What others need at least is not
// looked for once they are known to be likelier: less memory only makes them likelier still.
class LeastLikely {
 public:
  explicit LeastLikely(const MemoryDoubts& doubts) : doubts_(doubts) {}

  double deviation(const RankMemory& m) const { return stage_memory(m, doubts_).process_deviation; }
  // Whether a rank that runs in `enough`, or in less, may be the one.
  bool may_be(Bytes enough, double deviation, Bytes capacity) const {
    return fit_probability(enough, deviation, capacity) <= least_;
  }
  void note(Bytes needed, double deviation, Bytes capacity) {
    least_ = std::min(least_, fit_probability(needed, deviation, capacity));
  }

 private:
  MemoryDoubts doubts_;
  double least_ = 1;  // of the ranks so far
};

// A rank's tape, recorded when it is first asked for.
class RankTape {
 public:
  // `storage`: of the tape, kept from rank to rank.
  RankTape(const Program& p, const std::vector<program::MemoryEvent>& trace, Time period,
           memory::RecordedTape& storage)
      : p_(p), trace_(trace), period_(period), storage_(storage) {}

  const memory::RecordedTape& recorded() {
    if (!is_recorded_) {
      is_recorded_ = true;
      memory::record_tape(p_, trace_, period_, storage_);
    }
    return storage_;
  }
  // Of the tape where a block waits; else of what it is recorded from, which is less and is at hand
  // for ranks whose tapes are not recorded. `source`: the latter, where it is known.
  DigestPair digests(std::optional<DigestPair>& source) {
    if (memory::blocks_wait(trace_)) {
      return digests_of(recorded().tape);
    }
    if (!source) {
      source = digests_of(p_, trace_);
    }
    return *source;
  }

 private:
  const Program& p_;
  const std::vector<program::MemoryEvent>& trace_;
  Time period_;
  memory::RecordedTape& storage_;
  bool is_recorded_ = false;
};

// What allocators do with one tape: what is known of it, and what has to be replayed for more.
class TapeReplay {
 public:
  TapeReplay(RankTape& tape, const memory::ReplayOptions& options)
      : tape_(tape), options_(options) {}

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

  RankTape& tape_;
  const memory::ReplayOptions& options_;
  std::optional<memory::Replays> replays_;
};

TapeMemory TapeReplay::memory_of(Bytes outside, Bytes capacity) {
  memory::Replayed r = replays().without_limit();
  TapeMemory out;
  RankMemory& m = out.memory;
  out.unlimited = Bytes(std::max(r.first.reserved, r.peak.reserved));
  if (Bytes(r.peak.reserved) + outside > capacity) {
    // The driver refuses to allocate beyond the capacity, so the allocator first frees its cache.
    // Memory that does not fit even then is reported without a limit.
    m.fits = false;
    if (capacity > outside) {
      memory::Replayed limited = replays().within(capacity - outside);
      if (!limited.out_of_memory) {
        m.fits = true;
        m.retries = limited.retries;
        r = std::move(limited);
      }
    }
  }
  m.allocated = Bytes(r.peak.allocated);
  m.active = Bytes(r.peak.active);
  m.reserved = Bytes(std::max(r.first.reserved, r.peak.reserved));
  m.process = m.reserved + outside;
  m.steady = Bytes(r.steady.allocated);
  m.first = Bytes(r.first.allocated);
  m.by_category = r.at_peak_by_category;
  if (r.peak_position) {
    out.peak = memory::place_of(tape_.recorded().notes, *r.peak_position);
  }
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

// The least process memory in which a tape runs, between what its tensors take and what it reserves
// without a limit; more than that where it does not matter to `least`. LAW: at most `capacity`
// exactly where it fits.
Bytes least_process(TapeReplay& replay, TapeMemory& known, Bytes outside, Bytes capacity,
                    const LeastLikely& least) {
  const RankMemory& m = known.memory;
  const auto shares = [&](Bytes bytes) {
    return static_cast<double>((bytes + outside).count()) / static_cast<double>(capacity.count());
  };
  if (shares(known.unlimited) < kNearCapacity || shares(m.active) > kFarAboveCapacity) {
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

// Replays what has not been replayed: ranks whose calls are the same differ in times alone.
class TapeReplays {
 public:
  TapeReplays(memory::ReplayOptions options, ReplayMemo& memo, const MemoryDoubts& doubts)
      : options_(std::move(options)), memo_(memo), least_(doubts) {}

  RankMemory memory_of(const Program& p, const std::vector<program::MemoryEvent>& trace,
                       Time period, Bytes capacity, std::optional<DigestPair>& source) {
    RankTape tape(p, trace, period, storage_);
    const memory::AllocatorOptions& allocator = options_.allocator;
    const ReplayKey key{tape.digests(source), p.outside_allocator, capacity,
                        allocator.expandable_segments, allocator.oldest_segment_first};
    TapeReplay replay(tape, options_);
    TapeMemory* known = memo_.find(key);
    if (known == nullptr) {
      known = &memo_.keep(key, replay.memory_of(p.outside_allocator, capacity));
    }
    RankMemory m = known->memory;
    m.needed = least_process(replay, *known, p.outside_allocator, capacity, least_);
    least_.note(m.needed, least_.deviation(m), capacity);
    m.at = time_of(known->peak, trace, period);
    return m;
  }

 private:
  memory::ReplayOptions options_;
  ReplayMemo& memo_;
  LeastLikely least_;
  memory::RecordedTape storage_;  // of tapes
};

// Ranks with the most live tensors first, which are the least likely to fit on equal GPUs.
std::vector<program::RankId> largest_first(const Timeline& timeline) {
  std::vector<program::RankId> out;
  for (program::RankId r; r < timeline.ranks.size(); ++r) {
    out.push_back(r);
  }
  std::stable_sort(out.begin(), out.end(), [&](program::RankId a, program::RankId b) {
    return timeline.ranks[a].peak_allocated > timeline.ranks[b].peak_allocated;
  });
  return out;
}

}  // namespace

double fit_probability(Bytes needed, double deviation, Bytes capacity) {
  const auto bytes = static_cast<double>(needed.count());
  const double spare = static_cast<double>(capacity.count()) - bytes;
  if (!(deviation > 0) || !(bytes > 0)) {
    return spare >= 0 ? 1 : 0;
  }
  return std::erfc(-spare / (bytes * deviation * std::numbers::sqrt2)) / 2;
}

void set_deviations(const cost::MemoryStructure& beside, const std::vector<OpenKey>& open,
                    result::StageMemory& m) {
  using cost::MemoryPart;
  using cost::MemoryReach;
  const auto amount = [](Bytes bytes) { return static_cast<double>(bytes.count()); };
  const double allocated = amount(m.allocated);
  if (!(allocated > 0)) {
    return;
  }
  const double states = amount(m.parameters + m.gradients + m.optimizer);
  const double activations = amount(m.activations);
  double variance = 0;
  const auto add = [&variance](double bytes, double deviation) {
    variance += bytes * deviation * bytes * deviation;
  };
  for (const OpenKey& one : open) {
    const auto& of = one.fact->memory;
    add(allocated, of[static_cast<std::size_t>(MemoryReach::allocated)]);
    add(states, of[static_cast<std::size_t>(MemoryReach::states)]);
    add(activations, of[static_cast<std::size_t>(MemoryReach::activations)]);
  }
  m.open_deviation = std::sqrt(variance) / allocated;
  const auto of = [&](MemoryPart part) { return beside.deviation[static_cast<std::size_t>(part)]; };
  add(states, of(MemoryPart::states));
  add(activations, of(MemoryPart::activations));
  add(allocated - states - activations, of(MemoryPart::temporary));
  m.allocated_deviation = std::sqrt(variance) / allocated;
  add(amount(m.reserved - m.allocated), of(MemoryPart::fragmentation));
  add(allocated, of(MemoryPart::blocks));
  m.reserved_deviation = std::sqrt(variance) / amount(m.reserved);
  add(amount(m.process - m.reserved), of(MemoryPart::outside));
  m.process_deviation = std::sqrt(variance) / amount(m.process);
}

result::StageMemory stage_memory(const RankMemory& r, const MemoryDoubts& doubts) {
  result::StageMemory m;
  m.allocated = r.allocated;
  m.active = r.active;
  m.reserved = r.reserved;
  m.process = r.process;
  m.steady = r.steady;
  m.first_step_peak = r.first;
  for (std::size_t c = 0; c < result::kMemoryParts.size(); ++c) {
    m.*result::kMemoryParts[c] = Bytes(r.by_category[c]);
  }
  m.at = r.at;
  set_deviations(*doubts.beside, *doubts.open, m);
  return m;
}

void free_at_once(Timeline& timeline) {
  for (auto& trace : timeline.memory) {
    for (program::MemoryEvent& e : trace) {
      e.safe = e.time;
    }
  }
}

std::vector<program::RankId> traced_ranks(const World& world) {
  std::vector<program::RankId> out;
  std::vector<bool> seen(world.programs.size(), false);
  for (program::RankId r; r < world.ranks.size(); ++r) {
    const program::ProgramId p = world.ranks[r].program;
    if (!seen[p]) {
      seen[p] = true;
      out.push_back(r);
    }
  }
  return out;
}

std::vector<RankMemory> rank_memory(const World& world, const Timeline& timeline,
                                    const std::vector<Bytes>& capacity, AllocatorKind kind,
                                    bool several_streams, bool oldest_segment_first,
                                    Allocator allocator, const MemoryDoubts& doubts,
                                    std::vector<std::optional<DigestPair>>& sources,
                                    ReplayMemo& memo, const Stop* stop) {
  const bool expandable = kind == AllocatorKind::expandable_segments;
  memory::ReplayOptions options;
  options.allocator.expandable_segments = expandable;
  options.allocator.oldest_segment_first = oldest_segment_first;
  memory::Request request;
  request.expandable_segments = expandable;
  request.several_streams = several_streams;
  std::vector<program::RankId> traced(world.programs.size(), program::kNone);
  for (const program::RankId r : traced_ranks(world)) {
    traced[world.ranks[r].program] = r;
  }
  TapeReplays replays(options, memo, doubts);
  sources.resize(world.programs.size());
  std::map<std::pair<program::ProgramId, Bytes>, RankMemory> known;
  std::vector<RankMemory> out(world.ranks.size());
  for (const program::RankId r : largest_first(timeline)) {
    const program::ProgramId id = world.ranks[r].program;
    const Program& p = world.programs[id];
    if (kind == AllocatorKind::compiled) {
      out[r] = by_compiler(p, timeline.ranks[r], capacity[r]);
      continue;
    }
    if (allocator == Allocator::rule) {
      out[r] = by_rule(p, timeline.ranks[r], capacity[r], request);
      continue;
    }
    const auto [at, fresh] = known.try_emplace({id, capacity[r]});
    if (fresh) {
      check(stop);
      at->second = replays.memory_of(p, timeline.memory[traced[id]], timeline.period, capacity[r],
                                     sources[id]);
    }
    out[r] = at->second;
  }
  return out;
}

}  // namespace stepcast::forecast
