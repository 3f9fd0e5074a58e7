// Memory of each stage over one step: the forecast's own trace through the recorded allocator.
#include "memory.h"

#include "stepcast/forecast/forecaster.h"

namespace stepcast::forecast {

Names names_of(const program::Program& p, std::uint32_t buffer, std::uint32_t block) {
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

// What lies outside, by part; what the parts leave is a part of its own.
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

result::StageTimeline stage_timeline(const result::Report& report, const result::StageMemory& m,
                                     const job::Job& job) {
  const program::World& world = report.trace->world;
  const program::Program& program = world.programs[world.ranks[m.rank].program];
  result::StageTimeline out;
  out.stage = m.stage;
  out.host = m.host;
  out.nvme = m.nvme;
  memory::ReplayOptions options;
  options.allocator.expandable_segments =
      job.memory.allocator == job::Memory::Allocator::expandable_segments;
  options.period = report.trace->timeline.period;
  options.record = true;
  const memory::Replayed replayed =
      memory::replay(program, report.trace->timeline.memory[m.rank], options);
  out.allocated = Bytes(replayed.peak.allocated);
  out.active = Bytes(replayed.peak.active);
  out.reserved = Bytes(replayed.peak.reserved);
  out.first_step = Bytes(replayed.first.allocated);
  out.steady = Bytes(replayed.steady.allocated);
  out.process = out.reserved + program.outside_allocator;
  out.outside = outside_of(program, program.outside_allocator);
  out.retries = replayed.retries;
  out.out_of_memory = replayed.out_of_memory;
  out.snapshot.expandable_segments = options.allocator.expandable_segments;
  fill_timeline(program, replayed, out);
  fill_snapshot(program, replayed, out.snapshot);
  return out;
}

}  // namespace

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
  const auto& report = std::get<result::Report>(outcome);
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

}  // namespace stepcast::forecast
