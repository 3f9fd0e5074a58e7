#include "nccl_place.h"

#include <fmt/format.h>

#include <algorithm>

namespace stepcast::cost {
namespace {

[[noreturn]] void fail(const std::string& message) { throw InputError(Fault{{}, message}); }

int algorithm_of(const std::string& name) {
  for (int a = 0; a < static_cast<int>(algorithms().size()); ++a) {
    if (!name.empty() && normal_name(name) == algorithms()[static_cast<std::size_t>(a)].nccl_name) {
      return a;
    }
  }
  return -1;
}

}  // namespace

Scope scope_of(const NcclSystem& s) {
  return s.scope == NcclScope::network ? Scope::network : Scope::domain;
}

bool has_pairs(const job::Cluster& c) {
  const int domain = c.fabric.nvlink_domain_gpus;
  return c.device.nvlink.count() > 0 && domain > 0 && domain < c.node.gpus;
}

double port_rate(const job::Cluster& c) {
  const int ports = std::max(1, std::min(c.node.nics, c.node.gpus));
  return c.node.nic.count() * c.node.nics / ports;
}

job::Cluster reached(const NcclSystem& s) {
  job::Cluster c = s.cluster;
  const double rate = c.node.nic.count() * c.node.nics;
  if (s.link == "tcp" && rate > kSocketRate) {
    c.node.nic = Bandwidth(kSocketRate / c.node.nics);
  }
  return c;
}

Machine machine_of(const NcclSystem& s) {
  if (s.scope == NcclScope::network) {
    return {"network", s.link.empty() ? "other" : s.link, s.name};
  }
  if (s.cluster.device.nvlink.count() <= 0) {
    return {"pcie", s.cluster.node.peer_to_peer ? "pcie" : "staged", s.name};
  }
  const std::string kind = std::string(generation(s.cluster.device.compute_capability)) +
                           (s.link.empty() ? "" : "-" + s.link);
  return {"nvlink", has_pairs(s.cluster) ? kind + "-pairs" : kind, s.name};
}

const Places::Group& Places::group(const NcclLog& log, int nodes, int per_node) {
  const auto [slot, fresh] = groups_.try_emplace({nodes, per_node});
  if (!fresh) {
    return slot->second;
  }
  job::Cluster cluster = reached(system_);
  cluster.nodes = nodes;
  auto made = cluster::Topology::build(cluster);
  if (const auto* no = std::get_if<Infeasible>(&made)) {
    fail(fmt::format("{}: {}", log.name, no->reason));
  }
  const auto& topology = std::get<cluster::Topology>(made);
  std::vector<int> slots;
  for (int node = 0; node < nodes; ++node) {
    for (int g = 0; g < per_node; ++g) {
      slots.push_back(node * cluster.node.gpus + g);
    }
  }
  slot->second = {topology.shape(slots), topology.path(0, nodes > 1 ? cluster.node.gpus : 1)};
  return slot->second;
}

Sample Places::sample(const NcclLog& log, const NcclPoint& p) {
  Sample s;
  s.op = op_of(p.collective);
  if (s.op < 0) {
    fail(fmt::format("{}: no collective is named '{}'", log.name, p.collective));
  }
  const int gpus = system_.cluster.node.gpus;
  if (p.time <= Time(0) || p.size <= Bytes(0) || p.gpus_per_node < 1 || p.gpus_per_node > gpus ||
      p.nodes * p.gpus_per_node < 2) {
    fail(fmt::format("{}: a size and a time above 0, 1 to {} GPUs a node and two ranks expected",
                     log.name, gpus));
  }
  const Group& g = group(log, p.nodes, p.gpus_per_node);
  s.point.bytes = static_cast<double>(p.size.count());
  s.point.seconds = to_seconds(p.time);
  if (s.op == kSend) {
    s.point.offer.add(direct_line(g.path, nvlink_share(system_.cluster.device.compute_capability)));
    s.size = system_.scope == NcclScope::network ? g.shape.domains : g.shape.ranks;
  } else {
    const Situation situation = situate(g.shape, release_of(log.nccl));
    Allowed allowed;
    allowed.algorithm = algorithm_of(log.algo);
    s.point.offer = offer(situation, static_cast<Collective>(s.op), allowed);
    s.size = system_.scope == NcclScope::network ? situation.domains : situation.ranks;
  }
  if (s.point.offer.count == 0) {
    fail(fmt::format("{}: NCCL offers no {} on this system", log.name, p.collective));
  }
  return s;
}

Everything place_all(const std::vector<NcclMeasured>& measured) {
  Everything all;
  std::map<std::string, int> sites;
  for (int i = 0; i < static_cast<int>(measured.size()); ++i) {
    const NcclMeasured& m = measured[static_cast<std::size_t>(i)];
    all.machines.push_back(machine_of(m.system));
    const int first = static_cast<int>(all.logs.size());
    for (const auto& log : m.logs) {
      all.logs.push_back(log.name);
      all.sites.push_back(log.site.empty() ? log.name : log.site);
    }
    Places places(m.system);
    for (int p = 0; p < static_cast<int>(m.points.size()); ++p) {
      const NcclPoint& point = m.points[static_cast<std::size_t>(p)];
      Sample s = places.sample(m.logs.at(static_cast<std::size_t>(point.log)), point);
      s.machine = i;
      s.log = first + point.log;
      s.site = sites
                   .try_emplace(all.sites[static_cast<std::size_t>(s.log)],
                                static_cast<int>(sites.size()))
                   .first->second;
      all.samples.push_back(s);
      all.from.emplace_back(i, p);
    }
  }
  return all;
}

}  // namespace stepcast::cost
