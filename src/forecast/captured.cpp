// The forecast of a capture: recorded programs, priced on a cluster and run by the engine.
#include "stepcast/lower/captured.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "captured_load.h"
#include "doubts.h"
#include "prepare.h"
#include "report.h"
#include "stepcast/cost/buffers.h"
#include "stepcast/engine/engine.h"
#include "stepcast/lower/fold.h"

namespace stepcast::forecast {
namespace {

using capture::Capture;
using lower::CapturedWorld;

// What lies outside the allocator: it is not recorded, since there is no GPU, and follows the model
// of jobs.
void weigh_captured(CapturedWorld& captured, const job::Job& on, const hardware::Device& device) {
  for (std::size_t p = 0; p < captured.world.programs.size(); ++p) {
    program::Program& program = captured.world.programs[p];
    const auto context = static_cast<std::int64_t>(lower::context_bytes(Bytes(0), device));
    program.outside_parts.emplace_back("context and kernels", Bytes(context));
    for (const lower::CapturedGroup& group : captured.groups[p]) {
      if (group.shape.ranks > 1) {
        program.outside_parts.emplace_back(
            "NCCL: " + group.name, cost::nccl_buffers(on.nccl, group.shape, group.algorithms));
      }
    }
    for (const auto& [name, bytes] : program.outside_parts) {
      program.outside_allocator = program.outside_allocator + bytes;
    }
  }
}

RankMemory recorded_memory(const capture::Memory& m, Bytes outside, Bytes capacity) {
  using program::MemoryCategory;
  RankMemory out;
  out.allocated = out.active = Bytes(m.peak);
  out.reserved = Bytes(m.reserved);
  out.process = out.reserved + outside;
  out.steady = Bytes(m.between);
  out.first = Bytes(m.first_peak);
  // Cached blocks are given back before an allocation fails. How much of them the rest could use is
  // not recorded.
  out.needed = out.process <= capacity ? out.process : out.allocated + outside;
  out.fits = out.needed <= capacity;
  const auto at = [&](MemoryCategory c) -> std::int64_t& {
    return out.by_category[static_cast<std::size_t>(c)];
  };
  at(MemoryCategory::parameters) = std::min(m.parameters, m.peak);
  at(MemoryCategory::optimizer) = std::min(m.optimizer, m.peak - m.parameters);
  at(MemoryCategory::gradients) = std::clamp<std::int64_t>(
      m.gradients, 0, std::max<std::int64_t>(0, m.peak - m.parameters - m.optimizer));
  at(MemoryCategory::activations) =
      m.peak - std::accumulate(out.by_category.begin(), out.by_category.end(), std::int64_t{0});
  return out;
}

// Sum over all ranks, of which each program stands for some.
double over_ranks(const program::World& full, const std::vector<double>& of_program) {
  double sum = 0;
  for (const program::Rank& r : full.ranks) {
    sum += of_program[r.program];
  }
  return sum;
}

void fill_captured_rates(const Capture& capture, const CapturedWorld& captured, const job::Job& on,
                         double tokens, result::Report& report) {
  const double ranks = capture.world_size;
  const double model = over_ranks(captured.world, captured.flops) / ranks;
  const double done = model + over_ranks(captured.world, captured.recomputed) / ranks;
  const double peak = hardware::mean_peak_of(on.cluster, captured.type).count();
  const double shortest = peak > 0 ? std::min(report.step_time.value, done / peak) : 0;
  report.step_time.low = std::max(report.step_time.low, shortest);
  const auto rate = [&step = report.step_time](double amount) {
    return result::Estimate{amount / step.value, amount / step.high,
                            amount / std::max(step.low, 1e-3 * step.value)};
  };
  report.model_flops_per_gpu = rate(model);
  if (peak > 0) {
    report.mfu = rate(model / peak);
    report.hfu = rate(done / peak);
  }
  report.tokens = tokens;
  report.tokens_per_second_per_gpu = rate(tokens / ranks);
  report.title = fmt::format("a captured program on {} x {} ({} GPU{})", on.cluster.nodes,
                             on.cluster.name.empty() ? on.cluster.node.name : on.cluster.name,
                             capture.world_size, capture.world_size == 1 ? "" : "s");
}

// The longest of the recorded ranks' host times.
Time captured_host(const Capture& capture) {
  std::int64_t most = 0;
  for (const capture::Rank& rank : capture.ranks) {
    const std::int64_t all =
        std::accumulate(rank.tasks.begin(), rank.tasks.end(), std::int64_t{0},
                        [](std::int64_t sum, const capture::Task& t) { return sum + t.host; });
    most = std::max(most, all);
  }
  return Time(1000 * most);  // recorded in nanoseconds
}

// Whose host times count. Those of the capture say what a training node's host may come to be.
std::string host_note(const Capture& capture, Time launch, double step) {
  const std::string who = capture.host.empty() ? "the host that captured" : capture.host;
  if (capture.host_scale) {
    return fmt::format(
        "host times between launches are those of the machine that captured ({}), times {:g}; the "
        "driver's own time per launch is added",
        who, *capture.host_scale);
  }
  const double host = to_seconds(captured_host(capture));
  return fmt::format(
      "the host issues a kernel in {:.1f} us, as in jobs; {} took {:.0f} ms for a step's "
      "launches{}: --host-scale takes its times",
      1e6 * to_seconds(launch), who, 1e3 * host,
      host > step ? ", more than the step: a training node whose CPU is as slow would wait for it"
                  : "");
}

bool routes(const Capture& capture) {
  return std::any_of(capture.ranks.begin(), capture.ranks.end(), [](const capture::Rank& rank) {
    return std::any_of(rank.groups.begin(), rank.groups.end(),
                       [](const capture::Group& g) { return g.routed.has_value(); });
  });
}

// The load of the experts that the forecast rests on.
void note_load(const Capture& capture, const CapturedWorld& captured,
               const job::ExpertBalance& balance, std::vector<std::string>& notes) {
  if (!routes(capture)) {
    return;
  }
  std::string kind(to_string(balance.kind));
  if (balance.kind == job::ExpertBalance::Kind::spread) {
    kind = fmt::format("{} {:g}", kind, balance.spread);
  }
  const double most = *std::max_element(captured.loads.begin(), captured.loads.end());
  notes.push_back(fmt::format(
      "load of the experts: {} (moe.balance): each rank's experts get {:.3f} times the rows of "
      "even "
      "routing, those of the most loaded rank, in kernels and all-to-alls; memory is that of even "
      "routing, which the capture ran with",
      kind, most));
}

// What a capture cannot know, and what it rests on.
void note_capture(const Capture& capture, const CapturedWorld& captured, const job::Job& on,
                  double tokens, std::vector<std::string>& notes) {
  notes.push_back(fmt::format("captured: {} (torch {}), {} of {} ranks", capture.command,
                              capture.torch, capture.ranks.size(), capture.world_size));
  notes.emplace_back(
      "values are zero in a capture: what depends on them (lengths of documents, skipped steps) "
      "is as the script ran with zeros; attention is PyTorch's flash kernel");
  note_load(capture, captured, on.moe.balance, notes);
  notes.emplace_back(
      "MFU counts the FLOPs of the products and attention that ran, recomputation apart");
  if (!captured.operators.empty()) {
    std::vector<std::string> some(
        captured.operators.begin(),
        captured.operators.begin() +
            static_cast<std::ptrdiff_t>(std::min<std::size_t>(5, captured.operators.size())));
    notes.push_back(
        fmt::format("priced as element-wise kernels by the bytes that they read and write: {} "
                    "operators, {} ...",
                    captured.operators.size(), fmt::join(some, ", ")));
  }
  if (tokens <= 0) {
    notes.emplace_back("tokens of a step are not known to a capture: --tokens states them");
  }
  for (const capture::Rank& rank : capture.ranks) {
    for (const std::string& remark : rank.remarks) {
      notes.push_back(fmt::format("rank {}: {}", rank.rank, remark));
    }
  }
}

struct CapturedRun {
  std::optional<lower::Folded> folded;
  program::Timeline timeline;
};

std::variant<CapturedRun, Infeasible> run_captured(const CapturedWorld& captured,
                                                   const Options& options) {
  CapturedRun out;
  if (options.fidelity != Fidelity::full) {
    out.folded = lower::fold(captured.world);
  }
  engine::Options run;
  run.stop = options.stop;
  run.skip_repeats = options.skip_repeats;
  run.threads = options.threads;
  run.sensitivities = options.samples >= 0;
  run.record_slices = options.trace;
  auto outcome = engine::run(out.folded ? out.folded->world : captured.world, run);
  if (const auto* deadlock = std::get_if<program::Deadlock>(&outcome)) {
    return Infeasible{"program", fmt::format("the captured ranks wait for each other, so more of "
                                             "them must be recorded (--record): {}",
                                             fmt::join(deadlock->chain, "; "))};
  }
  out.timeline = std::get<program::Timeline>(std::move(outcome));
  return out;
}

std::vector<std::vector<std::string>> names_of(const CapturedWorld& captured) {
  std::vector<std::vector<std::string>> out;
  for (const auto& groups : captured.groups) {
    out.emplace_back();
    for (const lower::CapturedGroup& group : groups) {
      out.back().emplace_back(to_string(group.category));
    }
  }
  return out;
}

void fill_captured_engine(const CapturedRun& run, const CapturedWorld& captured,
                          result::Report& report) {
  report.engine = {run.folded ? "folded" : "full",
                   static_cast<std::int64_t>(captured.world.ranks.size()),
                   static_cast<std::int64_t>(run.timeline.ranks.size()),
                   static_cast<std::int64_t>(run.timeline.tasks),
                   static_cast<std::int64_t>(run.timeline.events),
                   run.timeline.steps,
                   run.timeline.periodic};
  if (!run.timeline.periodic) {
    report.notes.push_back(fmt::format(
        "the steps did not become periodic within {} steps: the step time is their mean",
        run.timeline.steps));
  }
}

}  // namespace

std::variant<result::Report, Infeasible> Forecaster::forecast(const capture::Capture& capture,
                                                              const job::Job& on, double tokens,
                                                              const Options& options) {
  try {
    return captured_within(capture, on, tokens, options);
  } catch (const std::overflow_error& error) {
    return Infeasible{
        "program", fmt::format("{}; expected times that fit 64 bits of picoseconds", error.what())};
  }
}

std::variant<result::Report, Infeasible> Forecaster::captured_within(
    const capture::Capture& capture, const job::Job& on, double tokens, const Options& options) {
  if (auto why = missing_calibration(*state_, on)) {
    return *why;
  }
  using Load = job::ExpertBalance::Kind;
  if (on.moe.balance.kind != Load::balanced && !routes(capture)) {
    return Infeasible{
        "moe.balance",
        "the program sends no tokens to experts on other ranks, so the load of experts "
        "changes nothing; expected it left out, or a capture with --routing even"};
  }
  const JobAtSite s = job_at_site(*state_, on, options.site);
  auto priced = price(*state_, s);
  if (auto* why = std::get_if<Infeasible>(&priced)) {
    return *why;
  }
  const auto& p = std::get<Priced>(priced);
  auto loads = captured_loads(capture, on.moe.balance);
  if (auto* why = std::get_if<Infeasible>(&loads)) {
    return *why;
  }
  auto made = lower::build_world(capture, p.topology, p.prices, s.job.system.launch,
                                 std::get<std::vector<double>>(std::move(loads)));
  if (auto* why = std::get_if<Infeasible>(&made)) {
    return *why;
  }
  auto& captured = std::get<CapturedWorld>(made);
  weigh_captured(captured, on, p.topology.device(0));
  std::vector<cost::Curve> curves = sharpen(s.site, state_->curves.curves(), captured.world);
  average_shapes(curves, captured.world);
  auto simulated = run_captured(captured, options);
  if (auto* why = std::get_if<Infeasible>(&simulated)) {
    return *why;
  }
  auto& run = std::get<CapturedRun>(simulated);
  const program::World& world = run.folded ? run.folded->world : captured.world;
  const std::vector<Bytes> capacity(world.ranks.size(), largest_memory(on));
  std::vector<RankMemory> memory;
  for (const program::Rank& rank : world.ranks) {
    memory.push_back(recorded_memory(capture.ranks[rank.program].memory,
                                     captured.world.programs[rank.program].outside_allocator,
                                     capacity.front()));
  }
  result::Report report;
  fill_report({nullptr,
               &world,
               &run.timeline,
               &curves,
               &on.cluster.device,
               capacity,
               &memory,
               Flops(0),
               &s.site,
               {},
               0,
               cost::structure_of(state_->structures, on.system.name),
               &state_->memory_structures.any,
               {},
               names_of(captured)},
              report);
  fill_captured_rates(capture, captured, on, tokens, report);
  fill_captured_engine(run, captured, report);
  note_capture(capture, captured, on, tokens, report.notes);
  report.notes.push_back(host_note(
      capture, std::max(s.job.system.launch, p.prices.kernels.begin()->second->launch().host),
      report.step_time.value));
  if (options.trace) {
    report.trace = result::Report::Trace{world, std::move(run.timeline)};
  }
  return report;
}

}  // namespace stepcast::forecast
