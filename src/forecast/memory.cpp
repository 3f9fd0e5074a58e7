#include "memory.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <optional>
#include <utility>
#include <vector>

#include "stepcast/memory/process.h"
#include "tape_replays.h"

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
                                    std::vector<std::optional<SourceDigests>>& sources,
                                    ReplayMemo& memo, std::size_t threads, const Stop* stop) {
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
  const auto traced_rank = [&](program::RankId r) {
    const program::ProgramId id = world.ranks[r].program;
    return TracedRank{&world.programs[id], &timeline.memory[traced[id]], capacity[r], &sources[id]};
  };
  const std::vector<program::RankId> order = largest_first(timeline);
  if (kind != AllocatorKind::compiled && allocator == Allocator::replay) {
    std::vector<TracedRank> ahead;
    std::vector<bool> seen(world.programs.size(), false);
    for (const program::RankId r : order) {
      if (!seen[world.ranks[r].program]) {
        seen[world.ranks[r].program] = true;
        ahead.push_back(traced_rank(r));
      }
    }
    replays.replay_ahead(ahead, timeline.period, threads, stop);
  }
  std::map<std::pair<program::ProgramId, Bytes>, RankMemory> known;
  std::vector<RankMemory> out(world.ranks.size());
  for (const program::RankId r : order) {
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
      at->second = replays.memory_of(traced_rank(r), timeline.period);
    }
    out[r] = at->second;
  }
  return out;
}

}  // namespace stepcast::forecast
