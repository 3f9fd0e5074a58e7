#include "plan.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

namespace stepcast::cluster {
namespace {

// Descriptions beyond these limits are no real clusters, and would take minutes or gigabytes.
constexpr std::int64_t kMaxLayers = 64;          // overrides of one node
constexpr std::int64_t kMaxSpines = 16'000'000;  // of all pods

Infeasible bad(const std::string& key, const std::string& reason) { return {key, reason}; }

bool has_network(const job::Cluster& c) {
  return c.node.nics > 0 && c.node.nic.count() > 0 && c.fabric.kind != job::Fabric::Kind::none &&
         (c.fabric.kind != job::Fabric::Kind::torus || c.fabric.slices > 1);
}

// The network's levels and the node's PCIe tree.
std::optional<Infeasible> check_tree(const job::Cluster& c) {
  const auto& f = c.fabric;
  if (f.nodes_per_pod < 0 || (f.nodes_per_pod > 0 && f.nodes_per_pod % f.nodes_per_leaf != 0)) {
    return bad("cluster.fabric.nodes_per_pod",
               "a pod consists of whole leaves: " + std::to_string(f.nodes_per_pod) +
                   " nodes are not a multiple of " + std::to_string(f.nodes_per_leaf));
  }
  const std::int64_t pods = f.nodes_per_pod > 0 ? 1 + c.nodes / f.nodes_per_pod : 1;
  if (pods * f.spines > kMaxSpines) {
    return bad("cluster.fabric.spines", std::to_string(f.spines) + " in each of " +
                                            std::to_string(pods) + " pods are more than " +
                                            std::to_string(kMaxSpines));
  }
  if (f.kind == job::Fabric::Kind::dragonfly && f.nodes_per_pod == 0) {
    return bad("cluster.fabric.nodes_per_pod",
               "a dragonfly+ needs nodes_per_pod, the nodes of one group");
  }
  if (!(f.core_oversubscription > 0)) {
    return bad("cluster.fabric.core_oversubscription", "must be above 0");
  }
  if (f.spines < 0 || f.uplinks_per_leaf < 0 || f.flows_per_nic < 1) {
    return bad("cluster.fabric",
               "spines and uplinks_per_leaf must be at least 0, flows_per_nic at least 1");
  }
  const auto& n = c.node;
  if (n.sockets < 1) {
    return bad("cluster.node.sockets", "a node has at least one socket");
  }
  if (n.pcie_switches < 0 || n.pcie_switches % n.sockets != 0) {
    return bad("cluster.node.pcie_switches", std::to_string(n.pcie_switches) +
                                                 " switches do not divide among " +
                                                 std::to_string(n.sockets) + " sockets");
  }
  return std::nullopt;
}

std::optional<Infeasible> check_links(const job::Cluster& c) {
  if (c.node.nvlink_links.empty()) {
    return std::nullopt;
  }
  const char* key = "cluster.node.nvlink_links";
  if (c.node.intra != job::Node::Intra::nvlink_mesh) {
    return bad(key, "links are listed for an nvlink_mesh only");
  }
  if (c.node.gpus > kMaxMeshGpus) {
    return bad(key, "links are listed for at most " + std::to_string(kMaxMeshGpus) + " GPUs");
  }
  if (c.fabric.nvlink_domain_gpus > c.node.gpus) {
    return bad("cluster.fabric.nvlink_domain_gpus",
               "an nvlink_mesh with listed links cannot extend beyond its node");
  }
  for (const auto& edge : c.node.nvlink_links) {
    if (edge.a < 0 || edge.b < 0 || edge.a == edge.b || edge.links < 1) {
      return bad(key, "links join two GPUs: [" + std::to_string(edge.a) + ", " +
                          std::to_string(edge.b) + ", " + std::to_string(edge.links) + "]");
    }
  }
  return std::nullopt;
}

std::optional<Infeasible> check(const job::Cluster& c) {
  if (c.nodes < 1) {
    return bad("cluster.nodes", "a cluster needs at least one node");
  }
  if (c.node.gpus < 1) {
    return bad("cluster.gpus_per_node", "a node needs at least one GPU");
  }
  if (static_cast<std::int64_t>(c.nodes) * c.node.gpus > 4'000'000) {
    return bad("cluster.nodes", "more than 4,000,000 GPUs");
  }
  if (c.fabric.nodes_per_leaf < 1) {
    return bad("cluster.fabric.nodes_per_leaf", "a leaf needs at least one node");
  }
  if (!(c.fabric.oversubscription >= 1)) {
    return bad("cluster.fabric.oversubscription", "must be at least 1");
  }
  if (!(c.fabric.efficiency > 0 && c.fabric.efficiency <= 1)) {
    return bad("cluster.fabric.efficiency", "must be above 0 and at most 1");
  }
  if (std::min(c.node.nics, c.node.gpus) > kMaxPorts) {
    return bad("cluster.node.nics", "more than 1024 NIC ports in a node");
  }
  const int domain = c.fabric.nvlink_domain_gpus;
  if (domain < 0 || (domain > 0 && domain % c.node.gpus != 0 && c.node.gpus % domain != 0)) {
    return bad("cluster.fabric.nvlink_domain_gpus",
               "an NVLink domain holds whole nodes, or divides a node; " + std::to_string(domain) +
                   " GPUs do not fit nodes of " + std::to_string(c.node.gpus));
  }
  if (c.fabric.segment > std::max(1, domain / c.node.gpus)) {
    return bad("cluster.fabric.segment",
               "an NVLink domain holds " + std::to_string(std::max(1, domain / c.node.gpus)) +
                   " nodes, and no segment of " + std::to_string(c.fabric.segment));
  }
  const bool torus = c.fabric.kind == job::Fabric::Kind::torus && c.fabric.slices == 1;
  if (c.fabric.slices < 1 || c.nodes % c.fabric.slices != 0) {
    return bad("cluster.fabric.slices", std::to_string(c.nodes) + " nodes do not divide among " +
                                            std::to_string(c.fabric.slices) + " slices");
  }
  const auto linked = [](const job::Device& d) { return d.nvlink.count() > 0; };
  const bool nvlink = c.node.intra != job::Node::Intra::pcie && linked(c.device) &&
                      std::all_of(c.overrides.begin(), c.overrides.end(),
                                  [&](const auto& o) { return linked(o.device); });
  const int joined = nvlink ? domain : 0;
  if (!has_network(c) && !torus && c.nodes > 1 && joined < c.nodes * c.node.gpus) {
    return bad("cluster.fabric", "several nodes need a fabric and NICs to communicate");
  }
  if (auto fault = check_tree(c)) {
    return fault;
  }
  if (auto fault = check_links(c)) {
    return fault;
  }
  std::int64_t painted = 0;
  for (const auto& o : c.overrides) {
    painted += o.count;
    if (o.first < 0 || o.count < 1 || o.first + o.count > c.nodes) {
      return bad("cluster.overrides", "nodes " + std::to_string(o.first) + " to " +
                                          std::to_string(o.first + o.count - 1) +
                                          " are not all in a cluster of " +
                                          std::to_string(c.nodes) + " nodes");
    }
  }
  if (painted > kMaxLayers * c.nodes) {
    return bad("cluster.overrides", "they name " + std::to_string(painted) + " nodes of " +
                                        std::to_string(c.nodes) +
                                        ": nodes are overridden too often");
  }
  return std::nullopt;
}

// Devices and what links them inside a node. Devices point into the plan's own copy of the cluster,
// whose vectors do not move.
void link_nodes(Plan& plan) {
  const auto& c = plan.cluster;
  plan.devices.assign(c.nodes, nullptr);
  plan.nvlink.resize(plan.slots());
  const auto set = [&](int first, int count, const job::Device& device) {
    const bool linked = c.node.intra != job::Node::Intra::pcie && device.nvlink.count() > 0;
    const double rate = linked ? device.nvlink.count() : device.pcie.count();
    std::fill_n(plan.devices.begin() + first, count, &device);
    std::fill_n(plan.nvlink.begin() + static_cast<std::ptrdiff_t>(first) * plan.gpus,
                static_cast<std::ptrdiff_t>(count) * plan.gpus, rate);
  };
  set(0, c.nodes, c.device);
  for (const auto& o : c.overrides) {
    set(o.first, o.count, o.device);
  }
  if (c.node.nvlink_links.empty()) {
    return;
  }
  plan.meshes.assign(c.overrides.empty() ? 1 : c.nodes, mesh_links(c.node, c.device, plan.gpus));
  for (const auto& o : c.overrides) {
    std::fill_n(plan.meshes.begin() + o.first, o.count, mesh_links(c.node, o.device, plan.gpus));
  }
  plan.domain_gpus = std::min(plan.domain_gpus, mesh_domain(plan.meshes.front()));
}

// Ports, leaves, spines and core links before faults. Returns a port's rate.
double wire(Plan& plan, double nic_rate) {
  const auto& c = plan.cluster;
  const auto& f = c.fabric;
  plan.ports = has_network(c) ? std::min(c.node.nics, plan.gpus) : 0;
  if (plan.ports == 0) {
    return 0;
  }
  std::vector<double> of_node(static_cast<std::size_t>(plan.ports), 0);
  for (int nic = 0; nic < c.node.nics; ++nic) {
    of_node[static_cast<std::size_t>(nic) * of_node.size() / c.node.nics] += nic_rate;
  }
  plan.port.reserve(of_node.size() * c.nodes);
  for (int node = 0; node < c.nodes; ++node) {
    plan.port.insert(plan.port.end(), of_node.begin(), of_node.end());
  }
  const double port = nic_rate * c.node.nics / plan.ports;
  plan.units = (c.nodes + f.nodes_per_leaf - 1) / f.nodes_per_leaf;
  const bool tree = f.kind == job::Fabric::Kind::fat_tree || plan.dragonfly() ||
                    f.kind == job::Fabric::Kind::torus;
  plan.leaves_per_unit = tree ? 1 : plan.ports;
  plan.units_per_pod = f.nodes_per_pod > 0 ? f.nodes_per_pod / f.nodes_per_leaf : plan.units;
  plan.pods = (plan.units + plan.units_per_pod - 1) / plan.units_per_pod;
  const int leaves = plan.units * plan.leaves_per_unit;
  const int per_node = plan.ports / plan.leaves_per_unit;
  const double ports_per_leaf = static_cast<double>(f.nodes_per_leaf) * per_node;
  const double uplink = ports_per_leaf * port / f.oversubscription;
  const double core = port * plan.ports * f.nodes_per_pod / f.core_oversubscription;
  if (leaves > 1) {
    // At most 4 spines, which is enough to route over; each bundle of links carries at least one
    // port's rate.
    double bundle = uplink;
    if (plan.pods > 1) {
      bundle = std::min(uplink, core / (plan.dragonfly() ? plan.pods - 1 : 1));
    }
    plan.spines = f.spines > 0 ? f.spines : static_cast<int>(std::clamp(bundle / port, 1.0, 4.0));
    plan.spine_left.assign(static_cast<std::size_t>(plan.pods) * plan.spines, 1);
    plan.uplink_each.assign(leaves, uplink / plan.spines);
  }
  plan.uplink.assign(leaves, uplink);
  if (plan.pods > 1) {
    plan.core_each.assign(plan.pods, core / plan.spines);
    plan.core.assign(plan.pods, core);
  }
  const auto cables = [&](double rate) {
    constexpr double kMaxCables = 1 << 20;  // with more, collisions even out
    return static_cast<int>(std::clamp(std::round(rate / nic_rate), 1.0, kMaxCables));
  };
  plan.uplink_cables = f.uplinks_per_leaf > 0 ? f.uplinks_per_leaf : cables(uplink);
  plan.core_cables = plan.pods > 1 ? cables(core) : 0;
  return port;
}

// Numbers the links of leaves and pods that can be the bottleneck: those slower than all ports
// below them together.
void number_resources(Plan& plan, double nominal_port) {
  const auto& c = plan.cluster;
  int next = plan.slots() + 2 * static_cast<int>(plan.port.size());
  const auto binds = [&](double share) { return share < nominal_port * (1 - 1e-9); };
  const int leaves = static_cast<int>(plan.uplink.size());
  plan.spine_resource.assign(leaves, -1);
  for (int leaf = 0; leaf < leaves; ++leaf) {
    const int unit = leaf / plan.leaves_per_unit;
    const int nodes = std::min(c.fabric.nodes_per_leaf, c.nodes - unit * c.fabric.nodes_per_leaf);
    const int below = nodes * (plan.ports / plan.leaves_per_unit);
    if (plan.spines > 0 && binds(plan.uplink[leaf] / below)) {
      plan.spine_resource[leaf] = next++;
    }
  }
  plan.core_resource.assign(plan.core.size(), -1);
  for (int pod = 0; pod < static_cast<int>(plan.core.size()); ++pod) {
    const int nodes = std::min(c.fabric.nodes_per_pod, c.nodes - pod * c.fabric.nodes_per_pod);
    if (binds(plan.core[pod] / (nodes * plan.ports))) {
      plan.core_resource[pod] = next++;
    }
  }
  const int below = plan.switches() > 0 ? plan.gpus / plan.switches() : 0;
  if (below > 1 && plan.pcie_uplink(0) < below * c.device.pcie.count()) {
    plan.pcie_resource = next;
    next += c.nodes * plan.switches();
  }
  if (plan.sockets() > 1 && c.node.inter_socket.count() > 0) {
    plan.socket_resource = next;
  }
}

// GPUs of the job in each NVLink domain of several nodes. A domain takes whole segments of nodes
// that the scheduler keeps together. That of a job whose segment is not stated is what NVIDIA's
// launcher asks of Slurm (nemo-toolkit 2.5.3, scripts/performance/executors.py:102): 64 trays of
// NVL72 lie as 16 in each of four racks, so that groups of 64 ranks stay within theirs.
int domain_of_job(const job::Cluster& c) {
  const int holds = c.fabric.nvlink_domain_gpus / c.node.gpus;  // nodes
  if (holds <= 1 || c.nodes <= holds) {
    return c.fabric.nvlink_domain_gpus;
  }
  int segment = c.fabric.segment > 0 ? c.fabric.segment : holds;
  while (c.fabric.segment == 0 && c.nodes % segment != 0) {
    --segment;
  }
  return holds / segment * segment * c.node.gpus;
}

}  // namespace

std::variant<Plan, Infeasible> make_plan(const job::Cluster& cluster) {
  if (auto fault = check(cluster)) {
    return *fault;
  }
  Plan plan;
  plan.cluster = cluster;
  if (cluster.fabric.kind == job::Fabric::Kind::torus) {
    // The network between slices is taken as one switch: a slice has more hosts than a leaf has
    // ports.
    plan.cluster.fabric.nodes_per_leaf = cluster.nodes;
    plan.cluster.fabric.nodes_per_pod = 0;
  }
  const auto& c = plan.cluster;
  plan.gpus = c.node.gpus;
  plan.domain_gpus = c.fabric.nvlink_domain_gpus > 0 && c.node.intra != job::Node::Intra::pcie
                         ? domain_of_job(c)
                         : plan.gpus;
  if (plan.domain_gpus < c.fabric.nvlink_domain_gpus &&
      c.fabric.nodes_per_leaf * plan.gpus == c.fabric.nvlink_domain_gpus) {
    plan.cluster.fabric.nodes_per_leaf = plan.domain_gpus / plan.gpus;  // a leaf holds a rack
  }
  link_nodes(plan);
  if (c.fabric.kind == job::Fabric::Kind::torus) {
    plan.domain_gpus = plan.slots() / c.fabric.slices;
    if (auto reason = make_torus(c.fabric, plan.domain_gpus, plan.torus)) {
      return bad("cluster.fabric.torus", *reason);
    }
    if (std::any_of(plan.devices.begin(), plan.devices.end(),
                    [](const job::Device* d) { return d->nvlink.count() <= 0; })) {
      return bad("cluster.device.nvlink", "chips of a torus need the rate of their links");
    }
  }
  if (plan.gpus > 1 && *std::min_element(plan.nvlink.begin(), plan.nvlink.end()) <= 0) {
    return bad("cluster.device.pcie",
               "GPUs of one node share neither NVLink nor PCIe: state a rate of one of them");
  }
  const double nic_rate = c.node.nic.count() * c.fabric.efficiency;
  const double nominal_port = wire(plan, nic_rate);
  if (auto reason = apply_faults(plan, nic_rate)) {
    return bad("cluster.faults", *reason);
  }
  // A port shared by several GPUs, or several NICs of one GPU, carry no more than the GPUs' PCIe
  // links do.
  for (int node = 0; node < c.nodes && plan.ports > 0; ++node) {
    const int users = plan.gpus / plan.ports;
    const double pcie = plan.devices[node]->pcie.count() * users;
    for (int p = 0; p < plan.ports && pcie > 0; ++p) {
      double& rate = plan.port[static_cast<std::size_t>(node) * plan.ports + p];
      rate = std::min(rate, pcie);
    }
  }
  number_resources(plan, nominal_port);
  return plan;
}

}  // namespace stepcast::cluster
