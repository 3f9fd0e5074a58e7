#include "prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "order.h"
#include "report.h"
#include "stepcast/cost/calibration_list.h"

namespace stepcast::forecast {
namespace {

// A key of all that is known of a device, whether or not prices of kernels depend on it.
std::string device_key(const job::Device& d, const std::string& library) {
  std::string key = fmt::format(
      "{}|{}|{}|{}|{}|{}|{}|{}", d.name, static_cast<int>(hardware::vendor_of(d)), library,
      d.memory_bandwidth.count(), d.sms, d.compute_capability, d.power.count(), d.source);
  key += fmt::format("|{}|{}|{}|{}|{}|{}|{}|{}", d.memory.count(), d.usable_memory.count(),
                     d.l2.count(), d.nvlink.count(), d.nvlink_generation, d.pcie.count(),
                     d.named_nvlink.count(), d.named_pcie.count());
  key += fmt::format("|{}", d.matrix_unit);
  for (const auto& [type, rate] : d.peak) {
    key += fmt::format("|{}:{}", static_cast<int>(type), rate.count());
  }
  return key;
}

}  // namespace

const Forecaster::State::FilesAndSite& Forecaster::State::site_of(
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

std::variant<cluster::Topology, Infeasible> Forecaster::State::topology_of(
    const job::Cluster& cluster, std::uint64_t seed) {
  constexpr std::size_t kMost = 4;
  const auto at = std::find_if(topologies.begin(), topologies.end(), [&](const auto& one) {
    return one.seed == seed && one.cluster == cluster;
  });
  if (at != topologies.end()) {
    std::rotate(topologies.begin(), at, at + 1);
    return topologies.front().topology;
  }
  auto built = cluster::Topology::build(cluster, seed);
  if (const auto* topology = std::get_if<cluster::Topology>(&built)) {
    if (topologies.size() == kMost) {
      topologies.pop_back();
    }
    topologies.insert(topologies.begin(), {cluster, seed, *topology});
  }
  return built;
}

const cost::Kernels* Forecaster::State::kernels_for(const job::Device& device, const job::Job& job,
                                                    double clock) {
  std::string key = fmt::format("{}|{}", device_key(device, job.kernels.library), clock);
  for (const std::string& file : job.calibration) {
    key += "|" + file;
  }
  auto it = kernels.find(key);
  if (it == kernels.end()) {
    it = kernels
             .emplace(key, cost::Kernels(device, job.kernels.library, calibration, job.calibration,
                                         curves))
             .first;
    if (clock != 1) {
      it->second.scale_clock(clock);
    }
  }
  return &it->second;
}

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

JobAtSite job_at_site(Forecaster::State& state, job::Job stated, const cost::Site* given) {
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

std::variant<Priced, Infeasible> price(Forecaster::State& state, const JobAtSite& s) {
  auto topology = state.topology_of(s.job.cluster, s.job.seed);
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

std::optional<Infeasible> missing_calibration(const Forecaster::State& state,
                                              const job::Job& stated) {
  if (const auto name = cost::missing_entry(stated.calibration, state.calibration)) {
    return Infeasible{"calibration", fmt::format("there is no file '{}'; expected a calibration "
                                                 "file, a folder of them, or auto",
                                                 *name)};
  }
  return std::nullopt;
}

std::variant<Prepared, Infeasible> prepare(Forecaster::State& state, const job::Job& stated,
                                           const cost::Site* given) {
  if (auto why = missing_calibration(state, stated)) {
    return *why;
  }
  JobAtSite s = job_at_site(state, stated, given);
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

program::World world_of(const Prepared& p, const lower::Options& options) {
  program::World world = lower::build_world(p.plan, p.priced.topology, p.priced.prices, options);
  if (p.site.has(cost::SiteParameter::overlap)) {
    if (const double factor = p.site.value(cost::SiteParameter::overlap); factor != 1) {
      scale_slowdowns(world, factor);
    }
  }
  return world;
}

Bytes within_margin(const job::Memory& memory, Bytes usable) {
  return memory.margin > 0
             ? Bytes(std::llround(static_cast<double>(usable.count()) * (1 - memory.margin)))
             : usable;
}

Bytes largest_memory(const job::Job& job) {
  Bytes out = usable_memory(job.cluster.device);
  for (const auto& o : job.cluster.overrides) {
    out = std::max(out, usable_memory(o.device));
  }
  return within_margin(job.memory, out);
}

}  // namespace stepcast::forecast
