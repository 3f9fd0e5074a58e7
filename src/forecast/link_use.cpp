// The use of the cluster's links: the bytes of each rank's operations on each kind of link, by
// their prices, added up on the links that its slot uses.
#include "stepcast/forecast/link_use.h"

#include <algorithm>
#include <array>
#include <map>

#include "stepcast/cluster/topology.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::forecast {
namespace {

using program::kResourceKinds;
using Bytes4 = std::array<double, kResourceKinds>;  // by cluster::ResourceKind

// Bytes that cross each kind of link when one operation runs.
Bytes4 crossing(const program::Price& price) {
  const double payload =
      static_cast<double>(price.rate) * static_cast<double>(price.fluid.count()) * 1e-12;
  Bytes4 out{};
  for (std::size_t k = 0; k < out.size(); ++k) {
    out[k] = payload * static_cast<double>(price.weight[k]) / program::kWeightOne;
  }
  return out;
}

Bytes4 of_rank(const program::World& world, const program::Rank& rank) {
  const program::Program& p = world.programs[rank.program];
  constexpr auto kNicIn = static_cast<std::size_t>(cluster::ResourceKind::nic_in);
  Bytes4 out{};
  for (const program::Task& t : p.tasks) {
    if (t.kind == program::TaskKind::collective) {
      const auto& c =
          world.communicators[world.communicator_table[rank.first_communicator + t.communicator]];
      if (c.size > 1) {
        const Bytes4 add = crossing(world.shapes[c.shape].prices[t.price]);
        for (std::size_t k = 0; k < out.size(); ++k) {
          out[k] += add[k];
        }
      }
    } else if (t.kind == program::TaskKind::exchange) {
      for (std::uint32_t i = 0; i < t.transfers; ++i) {
        const auto& transfer = p.transfers[t.first_transfer + i];
        const auto& channel =
            world.channels[world.channel_table[rank.first_channel + transfer.channel]];
        const Bytes4 add = crossing(world.shapes[channel.shape].prices[transfer.price]);
        // The receiver counts what enters its NIC; the sender counts everything else.
        for (std::size_t k = 0; k < out.size(); ++k) {
          out[k] += transfer.send == (k != kNicIn) ? add[k] : 0;
        }
      }
    }
  }
  return out;
}

// Mean of a stage's ranks.
std::map<int, Bytes4> by_stage(const program::World& world) {
  std::map<int, Bytes4> out;
  std::map<int, double> ranks;
  for (std::size_t r = 0; r < world.ranks.size(); ++r) {
    const double alike = world.multiplicity.empty() ? 1 : world.multiplicity[r];
    const int stage = world.programs[world.ranks[r].program].stage;
    const Bytes4 one = of_rank(world, world.ranks[r]);
    for (std::size_t k = 0; k < one.size(); ++k) {
      out[stage][k] += alike * one[k];
    }
    ranks[stage] += alike;
  }
  for (auto& [stage, bytes] : out) {
    for (double& b : bytes) {
      b /= ranks[stage];
    }
  }
  return out;
}

const char* name_of(job::Fabric::Kind kind) {
  switch (kind) {
    case job::Fabric::Kind::rail_optimized:
      return "rail-optimised";
    case job::Fabric::Kind::fat_tree:
      return "fat tree";
    case job::Fabric::Kind::nvl72:
      return "NVL72";
    case job::Fabric::Kind::none:
      return "none";
    case job::Fabric::Kind::dragonfly:
      return "dragonfly+";
    case job::Fabric::Kind::torus:
      return "torus";
  }
  return "";
}

// A class of links, and the link of each slot.
struct Level {
  const char* name;
  int (cluster::Topology::*of)(int) const;
  cluster::ResourceKind kind;
};

}  // namespace

result::LinkUse link_use(const result::Report& report, const job::Job& job) {
  result::LinkUse out;
  auto planned = strategy::resolve(job);
  auto built = cluster::Topology::build(job.cluster, job.seed);
  if (!report.trace || !std::holds_alternative<strategy::Plan>(planned) ||
      !std::holds_alternative<cluster::Topology>(built)) {
    return out;
  }
  const auto& plan = std::get<strategy::Plan>(planned);
  const auto& topology = std::get<cluster::Topology>(built);
  const double step = to_seconds(report.trace->timeline.period);
  const auto stages = by_stage(report.trace->world);
  const int ranks = std::min(plan.grid.ranks(), topology.devices());

  out.fabric = name_of(job.cluster.fabric.kind);
  out.gpus_per_node = job.cluster.node.gpus;
  out.nics_per_node = job.cluster.node.nics;
  std::vector<int> slots(static_cast<std::size_t>(std::min(out.gpus_per_node, ranks)));
  for (std::size_t i = 0; i < slots.size(); ++i) {
    slots[i] = static_cast<int>(i);
  }
  out.nvlink = topology.shape(slots).has_nvlink;

  using T = cluster::Topology;
  using K = cluster::ResourceKind;
  const std::array levels = {
      Level{out.nvlink ? "NVLink port" : "PCIe link", &T::nvlink_port, K::nvlink},
      Level{"PCIe switch uplink", &T::pcie_uplink, K::nvlink},
      Level{"link between sockets", &T::socket_link, K::nvlink},
      Level{"NIC, sending", &T::nic_out, K::nic_out},
      Level{"NIC, receiving", &T::nic_in, K::nic_in},
      Level{"leaf to spine", &T::spine, K::spine},
      Level{"core links of a pod", &T::core, K::spine}};
  int last_node = -1;
  std::vector<std::vector<double>> load(
      levels.size(), std::vector<double>(topology.resources().size(), -1));  // -1: not used
  std::vector<int> stage_of(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    const int stage = cluster::coordinates(plan.grid, rank).pipeline;
    stage_of[static_cast<std::size_t>(rank)] = stage;
    const auto found = stages.find(stage);
    for (std::size_t l = 0; l < levels.size() && found != stages.end(); ++l) {
      const int resource = (topology.*levels[l].of)(rank);
      if (resource >= 0) {
        double& sum = load[l][static_cast<std::size_t>(resource)];
        sum = std::max(0.0, sum) + found->second[static_cast<std::size_t>(levels[l].kind)];
      }
    }
    last_node = std::max(last_node, topology.node_of(rank));
  }
  const auto use = [&](std::size_t level, int resource) {
    const auto r = static_cast<std::size_t>(resource);
    const double capacity = topology.resources()[r].capacity.count();
    return capacity > 0 ? load[level][r] / (capacity * step) : 0.0;
  };
  for (std::size_t l = 0; l < levels.size(); ++l) {
    result::LinkClass c;
    c.name = levels[l].name;
    for (std::size_t r = 0; r < load[l].size(); ++r) {
      if (load[l][r] < 0) {
        continue;
      }
      const double capacity = topology.resources()[r].capacity.count();
      const double used = use(l, static_cast<int>(r));
      c.capacity = c.links == 0 ? capacity : std::min(c.capacity, capacity);
      ++c.links;
      c.mean_bytes += load[l][r];
      c.most_bytes = std::max(c.most_bytes, load[l][r]);
      c.mean += used;
      c.most = std::max(c.most, used);
    }
    if (c.links > 0) {
      c.mean_bytes /= static_cast<double>(c.links);
      c.mean /= static_cast<double>(c.links);
      out.classes.push_back(std::move(c));
    }
  }
  out.nodes.resize(static_cast<std::size_t>(last_node + 1));
  std::vector<bool> seen(out.nodes.size(), false);
  constexpr std::size_t kPort = 0, kOut = 3, kIn = 4;  // indices into `levels`
  for (int rank = 0; rank < ranks; ++rank) {
    const auto n = static_cast<std::size_t>(topology.node_of(rank));
    result::NodeLinks& node = out.nodes[n];
    const int stage = stage_of[static_cast<std::size_t>(rank)];
    node.first_stage = seen[n] ? std::min(node.first_stage, stage) : stage;
    node.last_stage = seen[n] ? std::max(node.last_stage, stage) : stage;
    seen[n] = true;
    if (const int port = topology.nvlink_port(rank); port >= 0) {
      node.inside = std::max(node.inside, use(kPort, port));
    }
    if (const int nic = topology.nic_out(rank); nic >= 0) {
      node.outside = std::max(node.outside, use(kOut, nic));
    }
    if (const int nic = topology.nic_in(rank); nic >= 0) {
      node.outside = std::max(node.outside, use(kIn, nic));
    }
  }
  return out;
}

}  // namespace stepcast::forecast
