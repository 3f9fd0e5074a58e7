// LAW: resources are numbered NVLink ports by slot, then per NIC port its outgoing and incoming
// side, then the uplinks that can be a bottleneck, by leaf, then by pod (also of the kind `spine`),
// then PCIe switches' uplinks and the links between sockets (of the kind `nvlink`, since bytes that
// cross them are counted per member, as at its own port). An uplink can be a bottleneck when all
// ports below it together exceed it, by oversubscription above 1 or after a fault. COST: build and
// resources() are linear in GPUs; every other query is O(1) or O(group).
#include "stepcast/cluster/topology.h"

#include <string>
#include <utility>

#include "state.h"

namespace stepcast::cluster {
namespace {

std::string named(const char* a, int i, const char* b, int j, const char* c = "") {
  std::string name = a;
  name += std::to_string(i);
  name += b;
  name += std::to_string(j);
  name += c;
  return name;
}

// Calls f(kind, capacity, name) for every resource in its order; `name` makes its name.
template <class F>
void each_resource(const Plan& plan, const F& f) {
  for (int slot = 0; slot < plan.slots(); ++slot) {
    f(ResourceKind::nvlink, Bandwidth(plan.nvlink[slot]), [&] {
      const int node = plan.node_of(slot);
      return named("node", node, "/gpu", slot % plan.gpus,
                   plan.has_nvlink(node) ? "/nvlink" : "/pcie");
    });
  }
  for (int p = 0; p < static_cast<int>(plan.port.size()); ++p) {
    const Bandwidth rate(plan.port[p]);
    const auto name = [&](const char* side) {
      const int nic = (p % plan.ports) * plan.cluster.node.nics / plan.ports;
      return named("node", p / plan.ports, "/nic", nic, side);
    };
    f(ResourceKind::nic_out, rate, [&] { return name("/out"); });
    f(ResourceKind::nic_in, rate, [&] { return name("/in"); });
  }
  for (int leaf = 0; leaf < static_cast<int>(plan.uplink.size()); ++leaf) {
    if (plan.spine_resource[leaf] >= 0) {
      f(ResourceKind::spine, Bandwidth(plan.uplink[leaf]),
        [&] { return "leaf" + std::to_string(leaf) + "/up"; });
    }
  }
  for (int pod = 0; pod < static_cast<int>(plan.core.size()); ++pod) {
    if (plan.core_resource[pod] >= 0) {
      f(ResourceKind::spine, Bandwidth(plan.core[pod]),
        [&] { return "pod" + std::to_string(pod) + "/up"; });
    }
  }
  for (int node = 0; plan.pcie_resource >= 0 && node < plan.cluster.nodes; ++node) {
    for (int s = 0; s < plan.switches(); ++s) {
      f(ResourceKind::nvlink, Bandwidth(plan.pcie_uplink(node)),
        [&] { return named("node", node, "/pcie", s, "/up"); });
    }
  }
  for (int node = 0; plan.socket_resource >= 0 && node < plan.cluster.nodes; ++node) {
    for (int s = 0; s < plan.sockets(); ++s) {
      f(ResourceKind::nvlink, plan.cluster.node.inter_socket,
        [&] { return named("node", node, "/socket", s, "/out"); });
    }
  }
}

std::vector<Resource> make_resources(const Plan& plan) {
  std::vector<Resource> all;
  all.reserve(plan.nvlink.size() + 2 * plan.port.size());
  each_resource(plan, [&](ResourceKind kind, Bandwidth capacity, const auto&) {
    all.push_back({kind, capacity});
  });
  return all;
}

}  // namespace

std::variant<Topology, Infeasible> Topology::build(const job::Cluster& cluster,
                                                   std::uint64_t seed) {
  auto made = make_plan(cluster);
  if (auto* fault = std::get_if<Infeasible>(&made)) {
    return *fault;
  }
  std::shared_ptr<const State> named;
  if (const auto other = hardware::at_named_rates(cluster)) {
    const auto built = build(*other, seed);
    if (const auto* topology = std::get_if<Topology>(&built)) {
      named = topology->state_;
    }
  }
  auto state = std::make_shared<State>(seed);
  state->plan = std::get<Plan>(std::move(made));
  // The plan's cluster was moved, so its pointers to devices are set again.
  Plan& plan = state->plan;
  std::fill(plan.devices.begin(), plan.devices.end(), &plan.cluster.device);
  for (const auto& o : plan.cluster.overrides) {
    std::fill_n(plan.devices.begin() + o.first, o.count, &o.device);
  }
  state->named = std::move(named);
  Topology topology;
  topology.state_ = std::move(state);
  return topology;
}

const std::vector<Vertex>& Topology::vertices() const {
  std::call_once(state_->picture_made, [&] { state_->picture = draw(state_->plan); });
  return state_->picture.vertices;
}

const std::vector<Link>& Topology::links() const {
  vertices();
  return state_->picture.links;
}

const std::vector<Resource>& Topology::resources() const {
  std::call_once(state_->resources_made, [&] { state_->resources = make_resources(state_->plan); });
  return state_->resources;
}

std::string Topology::resource_name(int resource) const {
  std::string out;
  each_resource(state_->plan, [&](ResourceKind, Bandwidth, const auto& name) {
    if (resource-- == 0) {
      out = name();
    }
  });
  return out;
}

int Topology::devices() const { return state_->plan.slots(); }
const job::Device& Topology::device(int slot) const {
  return *state_->plan.devices[state_->plan.node_of(slot)];
}
int Topology::node_of(int slot) const { return state_->plan.node_of(slot); }
int Topology::domain_of(int slot) const { return state_->plan.domain_of(slot); }

int Topology::nvlink_port(int slot) const { return state_->plan.nvlink[slot] > 0 ? slot : -1; }
int Topology::nic_out(int slot) const {
  const Plan& plan = state_->plan;
  return plan.ports == 0 ? -1 : plan.slots() + 2 * plan.port_of(slot);
}
int Topology::nic_in(int slot) const {
  const int out = nic_out(slot);
  return out < 0 ? -1 : out + 1;
}
int Topology::spine(int slot) const {
  const Plan& plan = state_->plan;
  return plan.ports == 0 ? -1 : plan.spine_resource[plan.leaf_of_port(plan.port_of(slot))];
}

int Topology::core(int slot) const {
  const Plan& plan = state_->plan;
  return plan.core_resource.empty() || plan.ports == 0
             ? -1
             : plan.core_resource[plan.pod_of_leaf(plan.leaf_of_port(plan.port_of(slot)))];
}
int Topology::pcie_uplink(int slot) const {
  const Plan& plan = state_->plan;
  return plan.pcie_resource < 0 ? -1
                                : plan.pcie_resource + plan.node_of(slot) * plan.switches() +
                                      plan.switch_of(slot % plan.gpus);
}
int Topology::socket_link(int slot) const {
  const Plan& plan = state_->plan;
  return plan.socket_resource < 0 ? -1
                                  : plan.socket_resource + plan.node_of(slot) * plan.sockets() +
                                        plan.socket_of(slot % plan.gpus);
}

}  // namespace stepcast::cluster
