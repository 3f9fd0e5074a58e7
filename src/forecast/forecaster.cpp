#include "stepcast/forecast/forecaster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <random>

#include "doubts.h"
#include "host_memory.h"
#include "order.h"
#include "report.h"
#include "stepcast/base/interval.h"
#include "stepcast/bound/bound.h"
#include "stepcast/cost/calibration_list.h"
#include "stepcast/engine/engine.h"
#include "stepcast/lower/fold.h"
#include "stepcast/lower/lower.h"

namespace stepcast::forecast {
namespace {

// Every figure of a device that prices a kernel.
std::string device_key(const job::Device& d, const std::string& library) {
  std::string key = fmt::format("{}|{}|{}|{}|{}|{}", d.name, library, d.memory_bandwidth.count(),
                                d.sms, d.compute_capability, d.power.count());
  for (const auto& [type, rate] : d.peak) {
    key += fmt::format("|{}:{}", static_cast<int>(type), rate.count());
  }
  return key;
}

std::string describe(const program::Deadlock& d) {
  std::string text = "the programs deadlock";
  for (const std::string& line : d.chain) {
    text += "; " + line;
  }
  return text;
}

}  // namespace

struct Forecaster::State {
  std::filesystem::path calibration;
  cost::CurveTable curves;
  std::map<std::string, cost::Kernels> kernels;
  std::vector<cost::Structure> structures;

  std::map<std::vector<std::string>, std::pair<std::vector<std::string>, std::optional<cost::Site>>>
      sites;

  // The site among a job's calibration files, and the list without it.
  const std::pair<std::vector<std::string>, std::optional<cost::Site>>& site_of(
      const std::vector<std::string>& files) {
    auto it = sites.find(files);
    if (it == sites.end()) {
      auto rest = files;
      auto site = cost::take_site(rest, calibration);
      if (site && rest == std::vector<std::string>{"auto"}) {
        rest.clear();
      }
      it = sites.emplace(files, std::make_pair(std::move(rest), std::move(site))).first;
    }
    return it->second;
  }

  const cost::Kernels* kernels_for(const job::Device& device, const job::Job& job, double clock) {
    std::string key = fmt::format("{}|{}", device_key(device, job.kernels.library), clock);
    for (const std::string& file : job.calibration) {
      key += "|" + file;
    }
    auto it = kernels.find(key);
    if (it == kernels.end()) {
      it = kernels
               .emplace(key, cost::Kernels(device, job.kernels.library, calibration,
                                           job.calibration, curves))
               .first;
      if (clock != 1) {
        it->second.scale_clock(clock);
      }
    }
    return &it->second;
  }
};

Forecaster::Forecaster(const std::filesystem::path& data_directory)
    : state_(std::make_unique<State>()) {
  state_->calibration = data_directory / "calibration";
  state_->structures = cost::read_structures(state_->calibration);
}
Forecaster::~Forecaster() = default;
Forecaster::Forecaster(Forecaster&&) noexcept = default;

namespace {

// Kernels are found by their device's name: where an override states other figures under a name
// that is taken ("h100-sxm" at half its bandwidth), it gets a name of its own. Calibration files
// are still chosen by the name that the job states.
job::Job with_distinct_devices(const job::Job& job) {
  job::Job out = job;
  std::map<std::string, std::string> figures;  // by name
  figures[job.cluster.device.name] = device_key(job.cluster.device, "");
  int number = 0;
  for (auto& o : out.cluster.overrides) {
    ++number;
    const std::string key = device_key(o.device, "");
    const auto [it, fresh] = figures.try_emplace(o.device.name, key);
    if (!fresh && it->second != key) {
      o.device.name += fmt::format(", override {}", number);
      figures[o.device.name] = key;
    }
  }
  return out;
}

// A job as its site has it, and with names that tell its devices apart.
struct Sited {
  SiteUse site;
  job::Cluster cluster;  // as stated: which calibration holds
  job::Job stated;
  job::Job job;
};

Sited sited(Forecaster::State& state, job::Job stated, const cost::Site* given) {
  const auto& [files, named] = state.site_of(stated.calibration);
  stated.calibration = files;
  SiteUse use = use_of(given != nullptr ? given : named ? &*named : nullptr, stated);
  job::Cluster cluster = stated.cluster;
  stated = at_site(use, stated);
  job::Job job = with_distinct_devices(stated);
  if (!stated.calibration.empty()) {
    std::vector<std::string> devices{stated.cluster.device.name};
    for (const auto& other : stated.cluster.overrides) {
      devices.push_back(other.device.name);
    }
    cost::check_folders(stated.calibration, devices, state.calibration);
  }
  return {std::move(use), std::move(cluster), std::move(stated), std::move(job)};
}

// What prices a job's tasks.
struct Priced {
  cluster::Topology topology;
  std::unique_ptr<cost::Collectives> collectives;
  lower::Prices prices;
};

std::variant<Priced, Infeasible> price(Forecaster::State& state, const Sited& s) {
  auto topology = cluster::Topology::build(s.job.cluster, s.job.seed);
  if (auto* why = std::get_if<Infeasible>(&topology)) {
    return *why;
  }
  Priced out{std::get<cluster::Topology>(std::move(topology)),
             std::make_unique<cost::Collectives>(s.cluster, s.job.nccl, state.calibration,
                                                 s.job.calibration, state.curves),
             {}};
  const double clock =
      s.site.has(cost::SiteParameter::clock) ? s.site.value(cost::SiteParameter::clock) : 1;
  out.prices.collectives = out.collectives.get();
  out.prices.curves = &state.curves;
  const job::Cluster& c = s.job.cluster;
  out.prices.kernels[c.device.name] = state.kernels_for(c.device, s.job, clock);
  for (std::size_t i = 0; i < c.overrides.size(); ++i) {
    out.prices.kernels[c.overrides[i].device.name] =
        state.kernels_for(s.stated.cluster.overrides[i].device, s.job, clock);
  }
  return out;
}

// What a forecast needs before anything is simulated.
struct Prepared {
  SiteUse site;
  strategy::Plan plan;
  Priced priced;
};

std::variant<Prepared, Infeasible> prepare(Forecaster::State& state, const job::Job& stated,
                                           const cost::Site* given) {
  Sited s = sited(state, stated, given);
  auto plan = strategy::resolve(s.job);
  if (auto* why = std::get_if<Infeasible>(&plan)) {
    return *why;
  }
  auto priced = price(state, s);
  if (auto* why = std::get_if<Infeasible>(&priced)) {
    return *why;
  }
  Prepared out{std::move(s.site), std::get<strategy::Plan>(std::move(plan)),
               std::get<Priced>(std::move(priced))};
  order_by_forecast_times(out.plan, out.priced.topology, out.priced.prices);
  return out;
}

// The programs of all ranks, as the site slows them.
program::World world_of(const Prepared& p, bool merge, lower::Recomputed* recomputed = nullptr) {
  program::World world = lower::build_world(p.plan, p.priced.topology, p.priced.prices,
                                            {.merge = merge, .recomputed = recomputed});
  if (p.site.has(cost::SiteParameter::overlap)) {
    if (const double factor = p.site.value(cost::SiteParameter::overlap); factor != 1) {
      scale_slowdowns(world, factor);
    }
  }
  return world;
}

// Whether any stage waits for its host: only then do launch and layer matter.
bool waits_for_host(const program::Timeline& t) {
  constexpr double kShare = 1e-3;
  return std::any_of(t.ranks.begin(), t.ranks.end(), [&](const program::RankResult& r) {
    return static_cast<double>(r.breakdown[static_cast<std::size_t>(program::Category::host)]) >
           kShare * static_cast<double>(t.period);
  });
}

// What one deviation more of launch or layer adds to the step: their cost is no curve's, so the
// step is simulated again.
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
  program::World world = world_of(*q, true);
  if (auto folded = lower::fold(world)) {
    world = std::move(folded->world);
  }
  engine::Options run;
  run.stop = stop;
  const auto outcome = engine::run(world, run);
  const auto* t = std::get_if<program::Timeline>(&outcome);
  return t == nullptr ? 0 : std::max(0.0, static_cast<double>(t->period) * 1e-12 - period);
}

// Usable memory of the GPU behind each rank of the simulated world.
std::vector<Bytes> capacities(const Prepared& p, const std::optional<lower::Folded>& folded,
                              std::size_t ranks) {
  std::vector<Bytes> out(ranks);
  const std::size_t all = folded ? folded->class_of.size() : ranks;
  for (std::size_t r = 0; r < all; ++r) {
    out[folded ? folded->class_of[r] : r] =
        usable_memory(p.priced.topology.device(static_cast<int>(r)));
  }
  return out;
}

Bytes largest_memory(const job::Cluster& cluster) {
  Bytes out = usable_memory(cluster.device);
  for (const auto& o : cluster.overrides) {
    out = std::max(out, usable_memory(o.device));
  }
  return out;
}

// The world with every curve's prices scaled by its factor.
void scale(program::World& world, const std::vector<double>& factor) {
  auto blended = [&](program::CurveId id) {
    const auto& parts = world.curves[id].parts;
    if (parts.empty()) {
      return factor[id];
    }
    double sum = 0;
    for (const auto& [curve, share] : parts) {
      sum += share * factor[curve];
    }
    return sum;
  };
  auto scaled = [](std::int64_t t, double f) {
    return static_cast<std::int64_t>(static_cast<double>(t) * f);
  };
  for (program::Program& p : world.programs) {
    for (program::Task& t : p.tasks) {
      if (t.kind == program::TaskKind::kernel) {
        t.duration = scaled(t.duration, blended(t.curve));
      }
    }
  }
  for (program::Slowdown& s : world.slowdowns) {
    if (s.curve == program::kNoCurve) {
      continue;
    }
    const double f = std::max(0.0, blended(s.curve));
    for (std::int64_t& speed : s.speed) {  // the time lost, 1/speed - 1, is what the factor scales
      speed = std::lround(1e6 / (1 + (1e6 / static_cast<double>(speed) - 1) * f));
    }
  }
  for (program::Shape& s : world.shapes) {
    for (program::Price& p : s.prices) {
      p.latency = scaled(p.latency, blended(p.latency_curve));
      const double f = blended(p.curve);
      p.fluid = scaled(p.fluid, f);
      p.rate =
          std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(p.rate) / f));
    }
  }
}

}  // namespace

std::variant<Forecaster::Bounds, Infeasible> Forecaster::bounds(const job::Job& job) {
  const Sited s = sited(*state_, job, nullptr);
  auto priced = price(*state_, s);
  if (auto* why = std::get_if<Infeasible>(&priced)) {
    return *why;
  }
  auto& p = std::get<Priced>(priced);
  return Bounds{std::move(p.collectives), bound::Bound(s.job, p.topology, p.prices),
                largest_memory(s.job.cluster)};
}

std::variant<result::Report, Infeasible> Forecaster::forecast(const job::Job& job,
                                                              const Options& options) {
  auto prepared = prepare(*state_, job, options.site);
  if (auto* why = std::get_if<Infeasible>(&prepared)) {
    return *why;
  }
  auto& p = std::get<Prepared>(prepared);
  if (options.fidelity == Fidelity::bound) {
    const auto least = bound::Bound(with_distinct_devices(job), p.priced.topology, p.priced.prices)
                           .evaluate(bound::candidate_of(p.plan));
    result::Report report;
    const double step = to_seconds(least.step);
    fill_rates(p.plan, job.cluster.device, {step, step, step},
               Flops(lower::recomputed_flops(p.plan)), report);
    const auto memory = static_cast<double>(least.memory.count());
    report.peak = {memory, memory, memory};
    report.capacity = largest_memory(job.cluster);
    report.fits = least.memory <= report.capacity;
    report.engine.fidelity = "bound";
    report.engine.ranks = p.plan.grid.ranks();
    report.notes.push_back("a closed-form lower bound of the step: nothing was simulated");
    return report;
  }
  check(options.stop);
  lower::Recomputed recomputed;
  program::World full = world_of(p, !options.trace, &recomputed);
  if (recomputed.least_budget.count() > 0) {
    return Infeasible{
        "memory.recompute",
        fmt::format("the budget of {} is too little; expected at least {}",
                    to_string(job.memory.recompute.budget), to_string(recomputed.least_budget))};
  }
  check(options.stop);
  const Flops redone = recomputed_flops(full, recomputed);
  const std::vector<cost::Curve> curves = sharpen(p.site, state_->curves.curves(), full);
  average_shapes(curves, full);
  std::optional<lower::Folded> folded;
  if (options.fidelity != Fidelity::full) {
    folded = lower::fold(full);
  }
  const program::World& world = folded ? folded->world : full;

  check(options.stop);
  engine::Options run;
  run.stop = options.stop;
  run.sensitivities = options.samples >= 0;
  run.record_slices = options.trace;
  run.record_memory = options.trace || options.allocator == Allocator::replay;
  if (!options.trace) {
    run.memory_of = traced_ranks(world);
  }
  auto outcome = engine::run(world, run);
  if (auto* deadlock = std::get_if<program::Deadlock>(&outcome)) {
    return Infeasible{"parallelism.schedule", describe(*deadlock)};
  }
  auto& timeline = std::get<program::Timeline>(outcome);

  // What one deviation of each of the site's parameters adds to the step.
  auto site_seconds = parameter_seconds(p.site, curves, world, curve_seconds(world, timeline));
  // Time that kernels or the host pace scatters as measured steps did; communication has its
  // curves.
  double paced = p.site.sure(cost::SiteParameter::clock)
                     ? -site_seconds[static_cast<std::size_t>(cost::SiteParameter::clock)]
                     : 0;
  for (std::size_t i = 0; i < site_seconds.size(); ++i) {
    const auto parameter = static_cast<cost::SiteParameter>(i);
    site_seconds[i] *= p.site.sure(parameter) ? (*p.site.site)[parameter].deviation : 0;
  }
  const double period = static_cast<double>(timeline.period) * 1e-12;
  if (run.sensitivities && waits_for_host(timeline)) {
    for (const auto parameter : {cost::SiteParameter::launch, cost::SiteParameter::layer}) {
      if (!p.site.sure(parameter)) {
        continue;
      }
      const double added = host_seconds(*state_, job, p.site, parameter, period, options.stop);
      site_seconds[static_cast<std::size_t>(parameter)] = added;
      const cost::SiteValue& v = (*p.site.site)[parameter];
      const double relative = parameter == cost::SiteParameter::layer
                                  ? (v.value > 0 ? v.deviation / v.value : 1)
                                  : std::expm1(v.deviation);
      paced += v.determined ? added / relative : 0;
    }
  }
  const double scattered =
      p.site.site == nullptr ? 0 : p.site.site->scatter * std::min(paced, period);
  const std::vector<Bytes> capacity = capacities(p, folded, world.ranks.size());
  const std::vector<RankMemory> of_ranks = rank_memory(
      world, timeline, capacity, p.plan.device_memory.allocator,
      p.plan.data_comm == strategy::DataComm::shard_all, options.allocator, options.stop);
  result::Report report;
  fill_report(
      {&p.plan, &world, &timeline, &curves, &job.cluster.device, capacity, &of_ranks, redone,
       &p.site, site_seconds, scattered, cost::structure_of(state_->structures, job.system.name)},
      report);
  fill_host(job.cluster.node, p.priced.topology,
            folded ? folded->class_of : std::vector<std::uint32_t>(), timeline, report);
  if (options.samples > 0) {
    std::mt19937_64 random(job.seed);
    std::normal_distribution<double> normal;
    std::vector<double> steps;
    // What no curve carries is nearly linear in the step: its part is drawn as one.
    double beside = 0;
    for (const result::Doubt& d : report.doubts) {
      beside = d.kind == result::DoubtKind::site || d.kind == result::DoubtKind::model ||
                       d.kind == result::DoubtKind::run
                   ? std::hypot(beside, d.added())
                   : beside;
    }
    for (int n = 0; n < options.samples; ++n) {
      std::vector<double> factor(world.curves.size(), 1.0);
      for (std::size_t c = 0; c < factor.size(); ++c) {
        factor[c] = std::max(0.05, 1 + world.curves[c].residual * normal(random));
      }
      program::World sample = world;
      scale(sample, factor);
      engine::Options draw;
      draw.stop = options.stop;
      auto result = engine::run(sample, draw);
      if (auto* t = std::get_if<program::Timeline>(&result)) {
        const double shift = beside > 0 ? beside * normal(random) : 0;
        steps.push_back(static_cast<double>(t->period) * 1e-12 + shift);
      }
    }
    std::sort(steps.begin(), steps.end());
    const auto at = [&](double q) {
      return steps[static_cast<std::size_t>(
          std::lround(q * static_cast<double>(steps.size() - 1)))];
    };
    if (!steps.empty()) {
      const double step = report.step_time.value;
      fill_rates(p.plan, job.cluster.device,
                 {step, std::min(step, at(0.05)), std::max(step, at(0.95))}, redone, report);
    }
  }
  report.engine.fidelity = folded ? "folded" : "full";
  report.engine.ranks = static_cast<std::int64_t>(full.ranks.size());
  report.engine.classes = static_cast<std::int64_t>(world.ranks.size());
  report.engine.tasks = static_cast<std::int64_t>(timeline.tasks);
  report.engine.events = static_cast<std::int64_t>(timeline.events);
  report.engine.steps = timeline.steps;
  report.engine.periodic = timeline.periodic;
  if (!timeline.periodic) {
    report.notes.push_back(
        fmt::format("no period within {} steps: the step time is their mean, spread {}",
                    timeline.steps, to_string(Time(timeline.spread))));
  }
  if (options.fidelity != Fidelity::full && !folded) {
    report.notes.push_back("more rank classes than the folding budget: every rank was simulated");
  }
  if (options.trace) {
    report.trace = result::Report::Trace{world, std::move(timeline)};
  }
  return report;
}

std::variant<Forecaster::LayerTime, Infeasible> Forecaster::layer_time(const job::Job& job,
                                                                       lower::LayerPart part) {
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
}

}  // namespace stepcast::forecast
