// LAW: a fault scales the capacity of its target, to zero where the target is down. A port whose
// NICs, leaf or leaf's uplinks are all down is served by the nearest port of its node that works. A
// fault of a spine also scales that spine's share of every uplink below it.
#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "plan.h"

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

class Faults {
 public:
  Faults(Plan& plan, double nic_rate) : plan_(plan), nic_rate_(nic_rate) {}

  // Returns a reason when the target does not exist, or when no job can run with the fault.
  std::optional<std::string> apply(const job::LinkFault& fault) {
    left_ = fault.down ? 0 : fault.bandwidth;
    if (!fault.down && !(left_ > 0 && left_ <= 1)) {
      return "'" + fault.target + "' must keep a share of its bandwidth above 0 and at most 1";
    }
    // A list that names leaves and rails again and again describes no cluster, and would take
    // minutes.
    constexpr std::int64_t kMaxLayers = 64;
    if (visited_ > kMaxLayers * static_cast<std::int64_t>(plan_.port.size())) {
      return "leaves and rails are named so often that each port has " +
             std::to_string(kMaxLayers) + " faults";
    }
    const std::string_view whole = fault.target;
    const auto slash = whole.find('/');
    const auto head = whole.substr(0, slash);
    const bool up = slash != std::string_view::npos && whole.substr(slash) == "/up";
    const int leaves = plan_.spines > 0 ? static_cast<int>(plan_.uplink_each.size()) : 0;
    if (const auto node = numbered(head, "node"); node && *node < plan_.cluster.nodes) {
      if (slash != std::string_view::npos) {
        const auto found = in_node(*node, whole.substr(slash + 1));
        if (found) {
          return found->empty() ? std::nullopt : found;
        }
      }
    } else if (const auto leaf = numbered(head, "leaf"); leaf && up && *leaf < leaves) {
      plan_.uplink_each[*leaf] *= left_;
      return std::nullopt;
    } else if (const auto pod = numbered(head, "pod");
               pod && up && *pod < static_cast<int>(plan_.core_each.size())) {
      plan_.core_each[*pod] *= left_;
      return std::nullopt;
    } else if (slash == std::string_view::npos) {
      if (const auto spine = numbered(whole, "spine");
          spine && *spine < static_cast<int>(plan_.spine_left.size())) {
        plan_.spine_left[*spine] *= left_;
        return std::nullopt;
      }
      if (const auto sw = numbered(whole, "leaf");
          sw && *sw < static_cast<int>(plan_.uplink.size())) {
        scale_leaf(*sw);
        if (leaves > 0) {
          plan_.uplink_each[*sw] *= left_;
        }
        return std::nullopt;
      }
      if (const auto rail = numbered(whole, "rail"); rail && *rail < plan_.ports) {
        scale_rail(*rail);
        for (int l = *rail; plan_.rails() && l < static_cast<int>(plan_.uplink_each.size());
             l += plan_.ports) {
          plan_.uplink_each[l] *= left_;
        }
        return std::nullopt;
      }
    }
    return "nothing is named '" + fault.target +
           "': expected nodeN/nicM, nodeN/gpuM, nodeN/gpuA-gpuB, leafK, leafK/up, spineS, podP/up "
           "or railR" +
           (plan_.spines == 0 ? " (this cluster has no spine)" : "");
  }

 private:
  // Visits only the ports of the leaf or rail, since there may be many faults.
  void scale_leaf(int leaf) {
    const auto& c = plan_.cluster;
    const int first = leaf / plan_.leaves_per_unit * c.fabric.nodes_per_leaf;
    const int last = std::min(c.nodes, first + c.fabric.nodes_per_leaf);
    const int rail = leaf % plan_.leaves_per_unit;  // 0 where a leaf takes all of a node's ports
    scale_ports(first * plan_.ports + rail, last * plan_.ports, plan_.rails() ? plan_.ports : 1);
  }
  void scale_rail(int rail) { scale_ports(rail, static_cast<int>(plan_.port.size()), plan_.ports); }
  void scale_ports(int first, int end, int step) {
    for (int port = first; port < end; port += step) {
      plan_.port[port] *= left_;
      ++visited_;
    }
  }

  // Returns nullopt where the node has no such part, else a reason, which is empty where the fault
  // was applied.
  std::optional<std::string> in_node(int node, std::string_view part) {
    const auto dash = part.find('-');
    if (dash != std::string_view::npos) {
      return between(node, part.substr(0, dash), part.substr(dash + 1));
    }
    if (const auto gpu = numbered(part, "gpu"); gpu && *gpu < plan_.gpus) {
      if (left_ <= 0) {
        return "node" + std::to_string(node) + "/" + std::string(part) +
               " cannot take part without its links: leave its node out";
      }
      plan_.nvlink[node * plan_.gpus + *gpu] *= left_;
      return "";
    }
    if (const auto nic = numbered(part, "nic");
        nic && plan_.ports > 0 && *nic < plan_.cluster.node.nics) {
      // A port of several NICs loses only that NIC's part.
      const int nics = plan_.cluster.node.nics;
      const int port = static_cast<int>(static_cast<std::int64_t>(*nic) * plan_.ports / nics);
      double& rate = plan_.port[node * plan_.ports + port];
      rate -= nic_rate_ * (1 - left_);
      rate = rate < nic_rate_ * 1e-9 ? 0 : rate;
      return "";
    }
    return std::nullopt;
  }

  // The links between two GPUs of a mesh that lists its links.
  std::optional<std::string> between(int node, std::string_view one, std::string_view other) {
    const auto a = numbered(one, "gpu");
    const auto b = numbered(other, "gpu");
    if (!a || !b || *a >= plan_.gpus || *b >= plan_.gpus || plan_.meshes.empty()) {
      return std::nullopt;
    }
    if (plan_.meshes.size() == 1 && plan_.cluster.nodes > 1) {
      plan_.meshes.resize(static_cast<std::size_t>(plan_.cluster.nodes), plan_.meshes.front());
    }
    MeshLinks& mesh = plan_.meshes[static_cast<std::size_t>(node)];
    if (mesh.links[static_cast<std::size_t>(mesh.at(*a, *b))] == 0) {
      return std::nullopt;
    }
    mesh.rate[static_cast<std::size_t>(mesh.at(*a, *b))] *= left_;
    mesh.rate[static_cast<std::size_t>(mesh.at(*b, *a))] *= left_;
    return "";
  }

  Plan& plan_;
  double nic_rate_;
  double left_ = 1;
  std::int64_t visited_ = 0;  // ports
};

// Ports that reach no spine are served by other ports of their node.
std::optional<std::string> move_ports(Plan& plan) {
  for (int p = 0; p < static_cast<int>(plan.port.size()); ++p) {
    if (plan.spines > 0 && plan.uplink[plan.leaf_of_port(p)] <= 0) {
      plan.port[p] = 0;
    }
    if (plan.port[p] <= 0 && plan.instead.empty()) {
      plan.instead.resize(plan.port.size());
    }
  }
  for (int p = 0; p < static_cast<int>(plan.instead.size()); ++p) {
    const int first = p / plan.ports * plan.ports;
    int best = -1;
    for (int other = first; other < first + plan.ports; ++other) {
      if (plan.port[other] > 0 && (best < 0 || std::abs(other - p) < std::abs(best - p))) {
        best = other;
      }
    }
    if (best < 0) {
      return "node" + std::to_string(p / plan.ports) + " loses all its NICs";
    }
    plan.instead[p] = best;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> apply_faults(Plan& plan, double nic_rate) {
  Faults faults(plan, nic_rate);
  for (const auto& fault : plan.cluster.faults) {
    if (auto reason = faults.apply(fault)) {
      return reason;
    }
  }
  // Sum of the shares that are left of a pod's spines. It is computed once for each pod: leaves
  // times spines may be a hundred million.
  std::vector<double> left(static_cast<std::size_t>(plan.pods));
  for (std::size_t i = 0; i < plan.spine_left.size(); ++i) {
    left[i / static_cast<std::size_t>(plan.spines)] += plan.spine_left[i];
  }
  for (int leaf = 0; leaf < static_cast<int>(plan.uplink_each.size()); ++leaf) {
    plan.uplink[leaf] = plan.uplink_each[leaf] * left[plan.pod_of_leaf(leaf)];
  }
  for (int pod = 0; pod < static_cast<int>(plan.core_each.size()); ++pod) {
    plan.core[pod] = plan.core_each[pod] * left[pod];
    if (plan.core[pod] <= 0) {
      return "pod" + std::to_string(pod) + " is cut off from the others";
    }
  }
  return move_ports(plan);
}

}  // namespace stepcast::cluster
