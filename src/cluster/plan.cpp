#include "plan.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>

namespace stepcast::cluster {
namespace {

// "node12" with the prefix "node" gives 12.
std::optional<int> numbered(std::string_view text, std::string_view prefix) {
  if (text.substr(0, prefix.size()) != prefix) {
    return std::nullopt;
  }
  text.remove_prefix(prefix.size());
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty() || value < 0) {
    return std::nullopt;
  }
  return value;
}

Infeasible bad(const std::string& key, const std::string& reason) { return {key, reason}; }

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
  const int domain = c.fabric.nvlink_domain_gpus;
  if (domain < 0 || (domain > 0 && domain % c.node.gpus != 0 && c.node.gpus % domain != 0)) {
    return bad("cluster.fabric.nvlink_domain_gpus",
               "an NVLink domain holds whole nodes, or divides a node; " + std::to_string(domain) +
                   " GPUs do not fit nodes of " + std::to_string(c.node.gpus));
  }
  const bool network =
      c.node.nics > 0 && c.node.nic.count() > 0 && c.fabric.kind != job::Fabric::Kind::none;
  if (!network && c.nodes > 1 && domain < c.nodes * c.node.gpus) {
    return bad("cluster.fabric", "several nodes need a fabric and NICs to talk to each other");
  }
  for (const auto& o : c.overrides) {
    if (o.first < 0 || o.count < 1 || o.first + o.count > c.nodes) {
      return bad("cluster.overrides", "nodes " + std::to_string(o.first) + " to " +
                                          std::to_string(o.first + o.count - 1) +
                                          " are not all in a cluster of " +
                                          std::to_string(c.nodes) + " nodes");
    }
  }
  return std::nullopt;
}

// Scales the capacity that a fault names; a reason when it names nothing.
std::optional<std::string> apply(Plan& plan, const job::LinkFault& fault, double nic_rate) {
  const double left = fault.bandwidth;
  if (!(left > 0 && left <= 1)) {
    return "'" + fault.target + "' keeps a share of its bandwidth above 0 and at most 1";
  }
  const auto slash = fault.target.find('/');
  const std::string_view whole = fault.target;
  const std::string_view head = whole.substr(0, slash);
  const std::string_view tail =
      slash == std::string::npos ? std::string_view() : whole.substr(slash + 1);
  if (const auto node = numbered(head, "node"); node && *node < plan.cluster.nodes) {
    if (const auto gpu = numbered(tail, "gpu"); gpu && *gpu < plan.gpus) {
      plan.nvlink[*node * plan.gpus + *gpu] *= left;
      return std::nullopt;
    }
    if (const auto nic = numbered(tail, "nic");
        nic && plan.ports > 0 && *nic < plan.cluster.node.nics) {
      // A port of several NICs loses only that NIC's part.
      const int nics = plan.cluster.node.nics;
      const int port = static_cast<int>(static_cast<std::int64_t>(*nic) * plan.ports / nics);
      plan.port[*node * plan.ports + port] -= nic_rate * (1 - left);
      return std::nullopt;
    }
  }
  if (const auto leaf = numbered(head, "leaf");
      leaf && tail == "up" && plan.spines > 0 && *leaf < static_cast<int>(plan.uplink.size())) {
    plan.uplink[*leaf] *= left;
    return std::nullopt;
  }
  return "no link is named '" + fault.target + "': expected nodeN/nicM, nodeN/gpuM or leafK/up" +
         (plan.spines == 0 ? " (this cluster has no spine)" : "");
}

}  // namespace

std::variant<Plan, Infeasible> make_plan(const job::Cluster& cluster) {
  if (auto fault = check(cluster)) {
    return *fault;
  }
  Plan plan;
  plan.cluster = cluster;
  const auto& c = plan.cluster;
  plan.gpus = c.node.gpus;
  plan.domain_gpus = c.fabric.nvlink_domain_gpus > 0 && c.node.intra != job::Node::Intra::pcie
                         ? c.fabric.nvlink_domain_gpus
                         : plan.gpus;
  const bool network =
      c.node.nics > 0 && c.node.nic.count() > 0 && c.fabric.kind != job::Fabric::Kind::none;
  plan.ports = network ? std::min(c.node.nics, plan.gpus) : 0;

  // Devices point into the plan's own copy, whose vector does not move.
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

  if (plan.gpus > 1 && *std::min_element(plan.nvlink.begin(), plan.nvlink.end()) <= 0) {
    return bad("cluster.device.pcie",
               "GPUs of one node share neither NVLink nor PCIe: state a rate of one of them");
  }

  const double nic_rate = c.node.nic.count() * c.fabric.efficiency;
  double nominal_port = 0;
  if (plan.ports > 0) {
    plan.port.assign(static_cast<std::size_t>(c.nodes) * plan.ports, 0);
    for (int nic = 0; nic < c.node.nics; ++nic) {
      const int port = static_cast<int>(static_cast<std::int64_t>(nic) * plan.ports / c.node.nics);
      for (int node = 0; node < c.nodes; ++node) {
        plan.port[static_cast<std::size_t>(node) * plan.ports + port] += nic_rate;
      }
    }
    nominal_port = nic_rate * c.node.nics / plan.ports;
    plan.pods = (c.nodes + c.fabric.nodes_per_leaf - 1) / c.fabric.nodes_per_leaf;
    plan.leaves_per_pod = c.fabric.kind == job::Fabric::Kind::fat_tree ? 1 : plan.ports;
    const int leaves = plan.pods * plan.leaves_per_pod;
    const int ports_per_leaf = c.fabric.nodes_per_leaf * (plan.ports / plan.leaves_per_pod);
    const double uplink = ports_per_leaf * nominal_port / c.fabric.oversubscription;
    if (leaves > 1) {
      // Enough spines to matter in a picture; each bundle of uplinks carries at least one port's
      // rate.
      plan.spines = std::clamp(static_cast<int>(uplink / nominal_port), 1, 4);
    }
    plan.uplink.assign(leaves, uplink);
  }
  for (const auto& fault : c.faults) {
    if (auto reason = apply(plan, fault, nic_rate)) {
      return bad("cluster.faults", *reason);
    }
  }
  // Several GPUs of one port, or one GPU of several NICs, cannot pass more than their PCIe links.
  for (int node = 0; node < c.nodes && plan.ports > 0; ++node) {
    const double pcie = plan.devices[node]->pcie.count() * (plan.gpus / plan.ports);
    for (int p = 0; p < plan.ports && pcie > 0; ++p) {
      double& rate = plan.port[static_cast<std::size_t>(node) * plan.ports + p];
      rate = std::min(rate, pcie);
    }
  }
  const int leaves = static_cast<int>(plan.uplink.size());
  plan.uplink_share.assign(leaves, 0);
  plan.spine_resource.assign(leaves, -1);
  int next = plan.slots() + 2 * static_cast<int>(plan.port.size());
  for (int leaf = 0; leaf < leaves; ++leaf) {
    const int pod = leaf / plan.leaves_per_pod;
    const int nodes = std::min(c.fabric.nodes_per_leaf, c.nodes - pod * c.fabric.nodes_per_leaf);
    const int below = nodes * (plan.ports / plan.leaves_per_pod);
    plan.uplink_share[leaf] = plan.uplink[leaf] / below;
    if (plan.spines > 0 && plan.uplink_share[leaf] < nominal_port * (1 - 1e-9)) {
      plan.spine_resource[leaf] = next++;
    }
  }
  return plan;
}

}  // namespace stepcast::cluster
