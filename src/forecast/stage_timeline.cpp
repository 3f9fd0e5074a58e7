// Memory of each stage over one step: the forecast's own trace through the recorded allocator.
#include "stage_timeline.h"

#include <algorithm>

#include "stepcast/forecast/forecaster.h"
#include "stepcast/forecast/link_use.h"

namespace stepcast::forecast {

Names names_of(const program::Program& p, program::BufferIndex buffer, std::uint32_t block) {
  const program::Buffer& b = p.buffers[buffer];
  if (block == program::kNone || p.blocks[block].label == b.label) {
    return {b.label, program::kNone};
  }
  return {p.blocks[block].label, b.label};
}

std::string text_of(const program::Program& p, std::uint32_t label) {
  return label < p.labels.size() ? p.labels[label] : std::string();
}

namespace {

// The parts of memory outside the allocator; the rest is a part of its own.
std::vector<result::StageTimeline::Outside> outside_of(const program::Program& p, Bytes whole) {
  std::vector<result::StageTimeline::Outside> out;
  Bytes rest = whole;
  for (const auto& [what, bytes] : p.outside_parts) {
    if (bytes > Bytes(0)) {
      out.push_back({what, bytes});
      rest = rest - bytes;
    }
  }
  if (rest != Bytes(0)) {
    out.push_back({out.empty() ? "context, libraries and NCCL" : "other", rest});
  }
  return out;
}

// The replay that the report shows: without a limit or, where that exceeds the GPU's memory, within
// it if that is possible.
memory::Replayed recorded(const program::Program& p, const std::vector<program::MemoryEvent>& trace,
                          Bytes capacity, memory::ReplayOptions options) {
  memory::Replayed r = memory::replay(p, trace, options);
  options.allocator.limit = capacity - p.outside_allocator;
  if (Bytes(r.peak.reserved) > options.allocator.limit && options.allocator.limit > Bytes(0)) {
    memory::Replayed limited = memory::replay(p, trace, options);
    if (!limited.out_of_memory) {
      return limited;
    }
  }
  return r;
}

result::StageTimeline stage_timeline(const result::Report& report, const result::StageMemory& m,
                                     const job::Job& job) {
  const program::World& world = report.trace->world;
  const program::Timeline& timeline = report.trace->timeline;
  const program::ProgramId id = world.ranks[m.rank].program;
  const program::Program& program = world.programs[id];
  const auto first = std::find_if(world.ranks.begin(), world.ranks.end(),
                                  [&](const program::Rank& r) { return r.program == id; });
  memory::ReplayOptions options;
  options.allocator.expandable_segments =
      job.memory.allocator == job::Memory::Allocator::expandable_segments;
  options.allocator.oldest_segment_first = job.system.oldest_segment_first;
  options.period = timeline.period;
  options.record = true;
  const auto rank = program::RankId::at(first - world.ranks.begin());
  const memory::Replayed replayed =
      recorded(program, timeline.memory[rank], report.capacity, options);
  result::StageTimeline out;
  out.stage = m.stage;
  out.allocated = Bytes(replayed.peak.allocated);
  out.active = Bytes(replayed.peak.active);
  out.reserved = Bytes(std::max(replayed.first.reserved, replayed.peak.reserved));
  out.first_step = Bytes(replayed.first.allocated);
  if (job.memory.allocator == job::Memory::Allocator::compiled ||
      hardware::vendor_of(job.cluster.device) == hardware::Vendor::google) {
    out.active = out.allocated;
    out.reserved = std::max(out.allocated, out.first_step);  // nothing is cached
  }
  out.steady = Bytes(replayed.steady.allocated);
  out.process = out.reserved + program.outside_allocator;
  out.outside = outside_of(program, program.outside_allocator);
  out.host = m.host;
  out.nvme = m.nvme;
  out.retries = replayed.retries;
  out.snapshot.expandable_segments = options.allocator.expandable_segments;
  fill_timeline(program, replayed,
                gpu_clock(program, timeline.memory[rank], timeline.slices, rank, replayed), out);
  fill_snapshot(program, replayed, out.snapshot);
  return out;
}

}  // namespace

result::MemoryTimeline memory_timeline(const result::Report& report, const job::Job& job) {
  result::MemoryTimeline out;
  out.title = report.title;
  out.ranks = report.engine.ranks;
  out.step = Time(report.trace->timeline.period);
  out.capacity = report.capacity;
  out.fits = report.fits;
  for (const result::StageMemory& m : report.memory) {
    out.stages.push_back(stage_timeline(report, m, job));
  }
  return out;
}

std::variant<result::MemoryTimeline, Infeasible> Forecaster::memory(const job::Job& job,
                                                                    const Options& options) {
  Options traced = options;
  traced.trace = true;
  traced.samples = 0;
  if (traced.fidelity == Fidelity::bound) {
    traced.fidelity = Fidelity::folded;
  }
  auto outcome = forecast(job, traced);
  if (auto* why = std::get_if<Infeasible>(&outcome)) {
    return std::move(*why);
  }
  return memory_timeline(std::get<result::Report>(outcome), job);
}

}  // namespace stepcast::forecast
