#include "memory.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <optional>
#include <utility>
#include <vector>

#include "stepcast/base/fnv.h"
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

// The least process memory in which a tape runs, where it reserves `reserved` without a limit and
// its tensors take `active`. LAW: at most `capacity` exactly where `fits`.
Bytes least_process(memory::Replays& replays, Bytes outside, Bytes active, Bytes reserved,
                    Bytes capacity, bool fits) {
  const auto shares = [&](Bytes bytes) {
    return static_cast<double>((bytes + outside).count()) / static_cast<double>(capacity.count());
  };
  if (shares(reserved) < kNearCapacity || shares(active) > kFarAboveCapacity) {
    return reserved + outside;
  }
  const Bytes enough = fits ? std::min(reserved, capacity - outside) : reserved;
  const Bytes short_of = fits ? active : std::max(active, capacity - outside);
  return replays.least(short_of, enough, kNeededSteps) + outside;
}

// What a tape takes of a GPU's memory, in whatever rank's times.
struct TapeMemory {
  RankMemory memory;
  std::optional<std::uint32_t> peak;  // position
};

TapeMemory by_replay(const memory::RecordedTape& recorded, Bytes outside, Bytes capacity,
                     const memory::ReplayOptions& options) {
  memory::Replays replays(recorded, options);
  memory::Replayed r = replays.without_limit();
  TapeMemory out;
  RankMemory& m = out.memory;
  const Bytes unlimited(std::max(r.first.reserved, r.peak.reserved));
  if (Bytes(r.peak.reserved) + outside > capacity) {
    // The driver refuses to allocate beyond the capacity, so the allocator first frees its cache.
    // Memory that does not fit even then is reported without a limit.
    m.fits = false;
    if (capacity > outside) {
      memory::Replayed limited = replays.within(capacity - outside);
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
  m.needed = least_process(replays, outside, m.active, unlimited, capacity, m.fits);
  m.steady = Bytes(r.steady.allocated);
  m.first = Bytes(r.first.allocated);
  m.by_category = r.at_peak_by_category;
  out.peak = r.peak_position;
  return out;
}

// When the peak comes: the host may be ahead of the step, in every period of which it recurs.
Time time_of(std::optional<std::uint32_t> peak, const memory::TapeNotes& notes, Time period) {
  const Time at = peak ? notes.at[*peak] : Time{0};
  if (period <= Time{0}) {
    return Time{0};
  }
  const Time within = at % period;
  return within < Time{0} ? within + period : within;
}

// Replays what has not been replayed: ranks whose calls are the same differ in times alone. Of what
// was replayed a digest is kept, and its tape is recorded anew where another has the same.
class TapeReplays {
 public:
  explicit TapeReplays(memory::ReplayOptions options) : options_(options) {}

  // `p` and `trace` must outlive this.
  RankMemory memory_of(const Program& p, const std::vector<program::MemoryEvent>& trace,
                       Time period, Bytes capacity) {
    memory::record_tape(p, trace, period, recorded_);
    const std::uint64_t digest = digest_of(recorded_.tape);
    const auto same = [&](const Known& k) {
      if (k.digest != digest || k.capacity != capacity ||
          k.program->outside_allocator != p.outside_allocator) {
        return false;
      }
      memory::record_tape(*k.program, *k.trace, k.period, other_);
      return other_.tape == recorded_.tape;
    };
    auto at = std::find_if(known_.begin(), known_.end(), same);
    if (at == known_.end()) {
      known_.push_back({digest, &p, &trace, period, capacity,
                        by_replay(recorded_, p.outside_allocator, capacity, options_)});
      at = known_.end() - 1;
    }
    RankMemory m = at->of.memory;
    m.at = time_of(at->of.peak, recorded_.notes, period);
    return m;
  }

 private:
  struct Known {
    std::uint64_t digest = 0;
    const Program* program = nullptr;
    const std::vector<program::MemoryEvent>* trace = nullptr;
    Time period{0};
    Bytes capacity;
    TapeMemory of;
  };

  // Equal tapes have equal digests.
  static std::uint64_t digest_of(const memory::Tape& tape) {
    std::uint64_t digest = kFnvOffset;
    for (const memory::Call& c : tape.calls) {
      digest =
          fnv_mix(digest, static_cast<std::uint64_t>(c.bytes) ^ std::uint64_t{c.tensor} << 32U);
    }
    return digest;
  }

  memory::ReplayOptions options_;
  std::vector<Known> known_;
  memory::RecordedTape recorded_, other_;  // kept for their storage
};

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
  m.reserved_deviation = std::sqrt(variance) / amount(m.reserved);
  add(amount(m.process - m.reserved), of(MemoryPart::outside));
  m.process_deviation = std::sqrt(variance) / amount(m.process);
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
                                    Allocator allocator, const Stop* stop) {
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
  TapeReplays replays(options);
  std::map<std::pair<program::ProgramId, Bytes>, RankMemory> known;
  std::vector<RankMemory> out;
  for (std::uint32_t r = 0; r < world.ranks.size(); ++r) {
    const program::ProgramId id = world.ranks[r].program;
    const Program& p = world.programs[id];
    if (kind == AllocatorKind::compiled) {
      out.push_back(by_compiler(p, timeline.ranks[r], capacity[r]));
      continue;
    }
    if (allocator == Allocator::rule) {
      out.push_back(by_rule(p, timeline.ranks[r], capacity[r], request));
      continue;
    }
    const auto [at, fresh] = known.try_emplace({id, capacity[r]});
    if (fresh) {
      check(stop);
      at->second = replays.memory_of(p, timeline.memory[traced[id]], timeline.period, capacity[r]);
    }
    out.push_back(at->second);
  }
  return out;
}

}  // namespace stepcast::forecast
