#include "stepcast/forecast/forecaster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>

#include "doubts.h"
#include "drawn_steps.h"
#include "host_memory.h"
#include "prepare.h"
#include "report.h"
#include "stepcast/base/interval.h"
#include "stepcast/base/statistics.h"
#include "stepcast/base/threads.h"
#include "stepcast/bound/bound.h"
#include "stepcast/engine/engine.h"
#include "stepcast/lower/fold.h"
#include "stepcast/lower/lower.h"

namespace stepcast::forecast {

Forecaster::Forecaster(const std::filesystem::path& data_directory)
    : state_(std::make_unique<State>()) {
  state_->calibration = data_directory / "calibration";
  state_->structures = cost::read_structures(state_->calibration);
  state_->memory_structures = cost::read_memory_structures(state_->calibration);
  state_->open_facts = cost::read_open_facts(state_->calibration);
}
Forecaster::~Forecaster() = default;
Forecaster::Forecaster(Forecaster&&) noexcept = default;

namespace {

std::string describe(const program::Deadlock& d) {
  std::string text = "the programs deadlock";
  for (const std::string& line : d.chain) {
    text += "; " + line;
  }
  return text;
}

// Whether any rank waits for its host: only then do launch and layer matter.
bool waits_for_host(const program::Timeline& t) {
  constexpr double kShare = 1e-3;
  return std::any_of(t.ranks.begin(), t.ranks.end(), [&](const program::RankResult& r) {
    return to_seconds(r.breakdown[static_cast<std::size_t>(program::Category::host)]) >
           kShare * to_seconds(t.period);
  });
}

// Seconds that one deviation more of launch or layer adds to the step. These times belong to no
// curve, so the step is simulated again.
double host_seconds(Forecaster::State& state, const job::Job& job, const SiteUse& use,
                    cost::SiteParameter p, double period, const Stop* stop) {
  if (!use.sure(p)) {
    return 0;
  }
  cost::Site more = *use.site;
  cost::SiteValue& v = more[p];
  const double stated =
      to_seconds(p == cost::SiteParameter::launch ? job.system.launch : job.system.layer_overhead);
  const double base = v.determined ? v.value : stated;
  v.value = p == cost::SiteParameter::layer ? base + v.deviation : base * std::exp(v.deviation);
  v.determined = true;
  auto prepared = prepare(state, job, &more);
  const auto* q = std::get_if<Prepared>(&prepared);
  if (q == nullptr) {
    return 0;
  }
  lower::Options lowered;
  lowered.lattices = &state.lattices;
  program::World world = world_of(*q, lowered);
  if (auto folded = state.folds.fold(std::move(world))) {
    world = std::move(folded->world);
  }
  engine::Options run;
  run.stop = stop;
  const auto outcome = engine::run(world, run);
  const auto* t = std::get_if<program::Timeline>(&outcome);
  return t == nullptr ? 0 : std::max(0.0, to_seconds(t->period) - period);
}

// Memory that the job may use of the GPU behind each rank of the simulated world.
std::vector<Bytes> capacities(const job::Memory& memory, const Prepared& p,
                              const std::optional<lower::Folded>& folded, std::size_t ranks) {
  std::vector<Bytes> out(ranks);
  const std::size_t all = folded ? folded->class_of.size() : ranks;
  for (std::size_t r = 0; r < all; ++r) {
    out[folded ? folded->class_of[r] : r] =
        within_margin(memory, usable_memory(p.priced.topology.device(static_cast<int>(r))));
  }
  return out;
}

// A closed-form lower bound in place of a simulation.
result::Report bound_report(const job::Job& job, const Prepared& p) {
  const auto least = bound::Bound(with_distinct_devices(job), p.priced.topology, p.priced.prices)
                         .evaluate(bound::candidate_of(p.plan));
  result::Report report;
  const double step = to_seconds(least.step);
  fill_rates(p.plan, {step, step, step}, Flops(lower::recomputed_flops(p.plan)), report);
  const auto memory = static_cast<double>(least.memory.count());
  report.peak = {memory, memory, memory};
  report.capacity = largest_memory(job);
  report.fits = {least.memory <= report.capacity, std::nullopt, report.capacity - least.memory};
  report.engine.fidelity = "bound";
  report.engine.ranks = p.plan.grid.ranks();
  report.notes.push_back("a closed-form lower bound of the step: nothing was simulated");
  return report;
}

// The tasks that the engine runs in a step, for each of which it keeps some 100 bytes: ranks that
// run one program are several. With slices it keeps each task of each step, and its trace as much.
void check_size(const program::World& world, const Options& options) {
  std::size_t tasks = 0;
  for (const program::Rank& r : world.ranks) {
    tasks += world.programs[r.program].tasks.size();
  }
  const std::size_t most = (options.trace ? 1 : 10) * options.most_tasks;
  if (tasks > most) {
    throw lower::TooLarge(
        "cluster.nodes",
        fmt::format("{} ranks that differ run {} tasks in a step, more than a {} holds; "
                    "expected at most {}: {}",
                    world.ranks.size(), tasks, options.trace ? "trace" : "forecast", most,
                    options.fidelity == Fidelity::full ? "--fidelity folded, or a smaller job"
                                                       : "a smaller job"));
  }
}

// A job that was lowered, folded where it could be, and, once run() is through with it, run.
struct Simulated {
  program::World full;  // all ranks; `folded` has taken it where that is
  std::optional<lower::Folded> folded;
  Flops recomputed{0};
  std::vector<cost::Curve> curves;  // with the residuals that the site leaves
  program::Timeline timeline;
  lower::ProgramMemo::Lent lent;  // by which the world's programs go back

  const program::World& world() const { return folded ? folded->world : full; }
  std::vector<program::Program>& programs() {
    return folded ? folded->world.programs : full.programs;
  }
};

// All but the run.
std::variant<Simulated, Infeasible> lowered_job(Forecaster::State& state, const job::Job& job,
                                                const Prepared& p, const Options& options) {
  check(options.stop);
  Simulated out;
  lower::Recomputed recomputed;
  lower::Options lowered;
  lowered.most_tasks = options.most_tasks;
  lowered.merge = !options.trace;
  lowered.recomputed = &recomputed;
  lowered.lattices = &state.lattices;
  lowered.programs = &state.programs;
  out.full = world_of(p, lowered);
  out.lent = state.programs.last();
  if (recomputed.least_budget.count() > 0) {
    return Infeasible{
        "memory.recompute",
        fmt::format("the budget of {} is too small; expected at least {}",
                    to_string(job.memory.recompute.budget), to_string(recomputed.least_budget))};
  }
  check(options.stop);
  out.recomputed = recomputed_flops(out.full, recomputed);
  out.curves = sharpen(p.site, state.curves.curves(), out.full);
  average_shapes(out.curves, out.full);
  if (options.fidelity != Fidelity::full) {
    out.folded = state.folds.fold(std::move(out.full));
  }
  check_size(out.world(), options);
  if (out.lent.programs == 0 || state.prepared.programs != out.lent.programs) {
    state.prepared = {out.lent.programs, {}, {}};
  }
  return out;
}

// `memory_if`: as of engine::Options.
std::optional<Infeasible> run(Forecaster::State& state, const Options& options, Simulated& job,
                              std::function<bool(const program::Timeline&)> memory_if) {
  check(options.stop);
  engine::Options run;
  run.stop = options.stop;
  run.skip_repeats = options.skip_repeats;
  run.threads = options.threads;
  run.sensitivities = options.samples >= 0;
  run.record_slices = options.trace;
  run.record_memory = options.trace || options.allocator == Allocator::replay;
  if (!options.trace) {
    run.memory_of = traced_ranks(job.world());
    run.memory_if = std::move(memory_if);
  }
  auto outcome = engine::run(job.world(), run, state.prepared.of);
  if (auto* deadlock = std::get_if<program::Deadlock>(&outcome)) {
    return Infeasible{"parallelism.schedule", describe(*deadlock)};
  }
  job.timeline = std::get<program::Timeline>(std::move(outcome));
  return std::nullopt;
}

// The uncertainty of the step by a site's own parameters, in seconds.
struct SiteDoubts {
  std::array<double, cost::kSiteParameters> seconds{};  // added by one deviation of each
  double scattered = 0;                                 // scatter of steps about the forecast
};

SiteDoubts site_doubts(Forecaster::State& state, const job::Job& job, const Prepared& p,
                       const Simulated& run, const Options& options) {
  SiteDoubts out;
  out.seconds =
      parameter_seconds(p.site, run.curves, run.world(), curve_seconds(run.world(), run.timeline));
  // The measured scatter applies to time that kernels or the host determine; that of communication
  // follows from its curves.
  double paced = p.site.sure(cost::SiteParameter::clock)
                     ? -out.seconds[static_cast<std::size_t>(cost::SiteParameter::clock)]
                     : 0;
  for (std::size_t i = 0; i < out.seconds.size(); ++i) {
    const auto parameter = static_cast<cost::SiteParameter>(i);
    out.seconds[i] *= p.site.sure(parameter) ? (*p.site.site)[parameter].deviation : 0;
  }
  const double period = to_seconds(run.timeline.period);
  if (options.samples >= 0 && waits_for_host(run.timeline)) {
    for (const auto parameter : {cost::SiteParameter::launch, cost::SiteParameter::layer}) {
      if (!p.site.sure(parameter)) {
        continue;
      }
      const double added = host_seconds(state, job, p.site, parameter, period, options.stop);
      out.seconds[static_cast<std::size_t>(parameter)] = added;
      const cost::SiteValue& v = (*p.site.site)[parameter];
      const double relative = parameter == cost::SiteParameter::layer
                                  ? (v.value > 0 ? v.deviation / v.value : 1)
                                  : std::expm1(v.deviation);
      paced += v.determined ? added / relative : 0;
    }
  }
  out.scattered = p.site.site == nullptr ? 0 : p.site.site->scatter * std::min(paced, period);
  return out;
}

std::vector<OpenKey> open_facts_of(const Forecaster::State& state, const job::Job& job) {
  std::vector<OpenKey> out;
  for (const std::string& key : job.assumed) {
    if (const cost::OpenFact* fact = cost::open_fact_of(state.open_facts, key)) {
      out.push_back({key, fact});
    }
  }
  return out;
}

// Replaces the interval of the step by that of samples, if there are any.
void take_interval(const std::vector<double>& steps, const Prepared& p, Flops recomputed,
                   result::Report& report) {
  if (steps.empty()) {
    return;
  }
  const double step = report.step_time.value;
  fill_rates(p.plan,
             {step, std::min(step, nearest_quantile(steps, 0.05)),
              std::max(step, nearest_quantile(steps, 0.95))},
             recomputed, report);
}

// What no forecast can be made of, since its times or its tasks do not fit, is a fault of the job
// like others: no key by itself is wrong.
template <class T, class F>
std::variant<T, Infeasible> within_limits(const F& forecast) {
  try {
    return forecast();
  } catch (const std::overflow_error& error) {
    return Infeasible{
        "", fmt::format("{}; expected a job whose times fit 64 bits of picoseconds", error.what())};
  } catch (const lower::TooLarge& error) {
    return Infeasible{error.key, error.what()};
  }
}

// Facts of the engine's run, and notes on it for the reader.
void fill_engine(const Simulated& run, const Options& options, result::Report& report) {
  const program::Timeline& timeline = run.timeline;
  report.engine.fidelity = run.folded ? "folded" : "full";
  report.engine.ranks =
      static_cast<std::int64_t>(run.folded ? run.folded->class_of.size() : run.full.ranks.size());
  report.engine.classes = static_cast<std::int64_t>(run.world().ranks.size());
  report.engine.tasks = static_cast<std::int64_t>(timeline.tasks);
  report.engine.events = static_cast<std::int64_t>(timeline.events);
  report.engine.steps = timeline.steps;
  report.engine.periodic = timeline.periodic;
  if (!timeline.periodic) {
    report.notes.push_back(
        fmt::format("the steps did not become periodic within {} steps: the step time is their "
                    "mean, with a spread of {}",
                    timeline.steps, to_string(Time(timeline.spread))));
  }
  if (options.fidelity != Fidelity::full && !run.folded) {
    report.notes.push_back(
        "there are more rank classes than the folding budget, so every rank was simulated");
  }
}

// A TPU's step is what XLA makes of the program, whatever a training system does on GPUs.
void note_device(const job::Job& job, result::Report& report) {
  const job::Device& device = job.cluster.device;
  if (hardware::vendor_of(device) == hardware::Vendor::google) {
    report.notes.push_back(
        fmt::format("{} runs programs of XLA: kernels and their order as the training system has "
                    "them on GPUs stand in; nothing was measured on this chip",
                    device.name));
  }
}

// What a pipeline loses to stages on slower devices is worth a note from this share of the step on.
constexpr double kWorthRedistributing = 0.2;
// And only where the longest stage computes that much longer than the shortest.
constexpr double kUnlikeStages = 1.3;

void note_unlike_stages(const job::Job& job, result::Report& report) {
  if (report.bubble_fraction < kWorthRedistributing || report.breakdown.size() < 2 ||
      hardware::device_nodes(job.cluster).size() < 2 ||
      job.parallelism.split == StageSplit::redistribute) {
    return;
  }
  const auto [least, most] =
      std::minmax_element(report.breakdown.begin(), report.breakdown.end(),
                          [](const auto& a, const auto& b) { return a.compute < b.compute; });
  const double ratio = to_seconds(most->compute) / std::max(1e-12, to_seconds(least->compute));
  if (ratio >= kUnlikeStages) {
    report.notes.push_back(
        fmt::format("stage {} computes {:.2g} times as long as stage {}, and the pipeline waits "
                    "{:.0f} % of the "
                    "step: parallelism.layers_per_stage=redistribute gives stages on slower "
                    "devices fewer layers",
                    most->stage, ratio, least->stage, 100 * report.bubble_fraction));
  }
}

// All that a report is made of.
struct Ran {
  Forecaster::State* state = nullptr;
  const job::Job* job = nullptr;
  const Prepared* prepared = nullptr;
  const Simulated* run = nullptr;
  const SiteDoubts* doubts = nullptr;
  const Options* options = nullptr;
};

// Memory of the world's ranks, and what is not known about it.
struct WorldMemory {
  std::vector<Bytes> capacity;  // by rank
  std::vector<OpenKey> open;
  const cost::MemoryStructure* beside = nullptr;
  std::vector<RankMemory> ranks;
};

WorldMemory memory_of(const Ran& ran, const program::Timeline& timeline, Allocator allocator) {
  const job::Job& job = *ran.job;
  const Prepared& p = *ran.prepared;
  const program::World& world = ran.run->world();
  WorldMemory out;
  out.capacity = capacities(job.memory, p, ran.run->folded, world.ranks.size());
  out.open = open_facts_of(*ran.state, job);
  out.beside = &cost::memory_structure_of(ran.state->memory_structures, job.system.name,
                                          !job.assumed.empty());
  out.ranks = rank_memory(world, timeline, out.capacity, p.plan.device_memory.allocator,
                          p.plan.data_comm == strategy::DataComm::shard_all,
                          p.plan.device_memory.oldest_segment_first, allocator,
                          {out.beside, &out.open}, ran.state->prepared.sources, ran.state->replays,
                          threads_of(ran.options->threads), ran.options->stop);
  return out;
}

// A report of the memory alone, by the rule of thumb, of what was not run.
result::Report memory_report(const Ran& ran) {
  const program::World& world = ran.run->world();
  program::Timeline timeline;
  timeline.ranks = engine::memory_of(world, ran.state->prepared.of);
  const WorldMemory memory = memory_of(ran, timeline, Allocator::rule);
  Source source;
  source.world = &world;
  source.timeline = &timeline;
  source.capacity = memory.capacity;
  source.memory = &memory.ranks;
  source.memory_structure = memory.beside;
  source.open = memory.open;
  result::Report report;
  fill_memory(source, report);
  return report;
}

result::Report report_of(const Ran& ran, Allocator allocator) {
  const job::Job& job = *ran.job;
  const Prepared& p = *ran.prepared;
  const Simulated& run = *ran.run;
  const program::World& world = run.world();
  const auto [capacity, open, beside, of_ranks] = memory_of(ran, run.timeline, allocator);
  result::Report report;
  fill_report({&p.plan, &world, &run.timeline, &run.curves, &job.cluster.device, capacity,
               &of_ranks, run.recomputed, &p.site, ran.doubts->seconds, ran.doubts->scattered,
               cost::structure_of(ran.state->structures, job.system.name), beside, open},
              report);
  fill_host(job.cluster.node, p.priced.topology,
            run.folded ? run.folded->class_of : std::vector<std::uint32_t>(), run.timeline, report);
  if (ran.options->samples > 0) {
    take_interval(
        drawn_steps(world, report.doubts, ran.options->samples, job.seed, ran.options->stop), p,
        run.recomputed, report);
  }
  fill_engine(run, *ran.options, report);
  if (job.memory.margin > 0) {
    report.notes.push_back(fmt::format(
        "{:.3g} % of each device's memory is left free (memory.margin)", 100 * job.memory.margin));
  }
  note_device(job, report);
  note_unlike_stages(job, report);
  return report;
}

constexpr std::string_view kRecompute = "memory.recompute";

// Whether a job that does not fit leaves open how much it recomputes, and could recompute more.
bool may_recompute_more(const job::Job& job, const result::Report& report) {
  return !report.fits && job.memory.recompute.kind != job::Recompute::Kind::full &&
         std::find(job.assumed.begin(), job.assumed.end(), kRecompute) != job.assumed.end();
}

}  // namespace

Forecaster::Kept Forecaster::kept() const {
  return {state_->kernels.size(), state_->curves.curves().size()};
}

const cost::MemoryStructure& Forecaster::memory_structure() const {
  return state_->memory_structures.any;
}

std::variant<Forecaster::Bounds, Infeasible> Forecaster::bounds(const job::Job& job) {
  return within_limits<Bounds>([&]() -> std::variant<Bounds, Infeasible> {
    if (auto why = missing_calibration(*state_, job)) {
      return *why;
    }
    const JobAtSite s = job_at_site(*state_, job, nullptr);
    auto priced = price(*state_, s);
    if (auto* why = std::get_if<Infeasible>(&priced)) {
      return *why;
    }
    auto& p = std::get<Priced>(priced);
    return Bounds{std::move(p.collectives), bound::Bound(s.job, p.topology, p.prices),
                  largest_memory(s.job)};
  });
}

std::variant<result::Report, Infeasible> Forecaster::forecast(const job::Job& job,
                                                              const Options& options) {
  return within_limits<result::Report>([&] {
    auto out = forecast_within(job, options);
    auto* report = std::get_if<result::Report>(&out);
    // Searches, which want no intervals or ask whether to replay, try recomputation themselves.
    const bool alone = options.samples >= 0 && !options.replay_if;
    if (report != nullptr && alone && may_recompute_more(job, *report)) {
      note_full_recomputation(job, options, *report);
    }
    return out;
  });
}

void Forecaster::note_full_recomputation(const job::Job& job, const Options& options,
                                         result::Report& report) {
  job::Job all = job;
  all.memory.recompute = {job::Recompute::Kind::full};
  Options quick = options;
  quick.samples = -1;
  quick.trace = false;
  const auto other = forecast_within(all, quick);
  const auto* recomputed = std::get_if<result::Report>(&other);
  report.fits_recomputed = recomputed != nullptr && recomputed->fits;
  if (report.fits_recomputed) {
    report.notes.push_back(
        fmt::format("{} is assumed: the job fits with full recomputation", kRecompute));
  }
}

std::variant<result::Report, Infeasible> Forecaster::forecast_within(const job::Job& job,
                                                                     const Options& options) {
  auto prepared = prepare(*state_, job, options.site);
  if (auto* why = std::get_if<Infeasible>(&prepared)) {
    return *why;
  }
  const auto& p = std::get<Prepared>(prepared);
  if (options.fidelity == Fidelity::bound) {
    return bound_report(job, p);
  }
  auto lowered = lowered_job(*state_, job, p, options);
  if (auto* why = std::get_if<Infeasible>(&lowered)) {
    return *why;
  }
  auto& simulated = std::get<Simulated>(lowered);
  const auto give_back = [&] {
    state_->programs.bring_back(simulated.lent.world, std::move(simulated.programs()));
  };
  if (options.run_if) {
    result::Report memory = memory_report({state_.get(), &job, &p, &simulated, nullptr, &options});
    if (!options.run_if(memory)) {
      give_back();
      return memory;
    }
  }
  // By the rule of thumb where that is asked for, and whether that is enough.
  SiteDoubts doubts;
  std::optional<result::Report> by_rule;
  bool enough = false;
  const auto report_by = [&](Allocator allocator) {
    return report_of({state_.get(), &job, &p, &simulated, &doubts, &options}, allocator);
  };
  const auto ask = [&] {
    doubts = site_doubts(*state_, job, p, simulated, options);
    if (options.replay_if) {
      by_rule = report_by(Allocator::rule);
      enough = !options.replay_if(*by_rule);
    }
  };
  const auto memory_if = [&](const program::Timeline& without) {
    simulated.timeline = without;
    ask();
    return !enough;
  };
  const bool asks = options.replay_if != nullptr;
  if (auto why = run(*state_, options, simulated,
                     asks ? memory_if : std::function<bool(const program::Timeline&)>())) {
    return *why;
  }
  if (!by_rule) {
    ask();
  }
  if (!job.memory.stream_waits) {
    free_at_once(simulated.timeline);
  }
  const auto whole_report = [&] {
    if (enough) {
      return std::move(*by_rule);
    }
    result::Report report = report_by(options.allocator);
    if (options.trace) {
      report.trace = result::Report::Trace{simulated.world(), std::move(simulated.timeline)};
    }
    return report;
  };
  result::Report report = whole_report();
  give_back();
  return report;
}

std::variant<Forecaster::LayerTime, Infeasible> Forecaster::layer_time(const job::Job& job,
                                                                       lower::LayerPart part) {
  return within_limits<LayerTime>([&]() -> std::variant<LayerTime, Infeasible> {
    auto prepared = prepare(*state_, job, nullptr);
    if (auto* why = std::get_if<Infeasible>(&prepared)) {
      return *why;
    }
    auto& p = std::get<Prepared>(prepared);
    const model::LayerKind kind = model::layer_kind(job.model, job.model.layers / 2);
    if (part == lower::LayerPart::experts && kind.mlp != model::LayerKind::Mlp::moe) {
      return Infeasible{"model.moe", "the middle layer has no experts"};
    }
    const lower::LayerTime t = lower::layer_time(p.plan, p.priced.topology, p.priced.prices,
                                                 p.priced.topology.device(0), kind, part);
    const auto estimate = [&](Time time,
                              std::initializer_list<const std::map<cost::CurveId, Time>*> of) {
      double variance = 0;
      for (const auto* curves : of) {
        for (const auto& [curve, under] : *curves) {
          const double deviation = to_seconds(under) * state_->curves.curves()[curve].residual;
          variance += deviation * deviation;
        }
      }
      const double s = to_seconds(time);
      const double half = kDeviations90 * std::sqrt(variance);
      return result::Estimate{s, std::max(0.0, s - half), s + half};
    };
    return LayerTime{estimate(t.forward, {&t.forward_curves}),
                     estimate(t.backward, {&t.backward_curves}),
                     estimate(t.forward + t.backward, {&t.forward_curves, &t.backward_curves})};
  });
}

}  // namespace stepcast::forecast
