// LAW: GPUs of one domain meet at their NVLink switch (or, in a mesh, directly); GPUs of one node
// that share no NVLink meet below one PCIe switch, in their socket's root complex or across
// sockets; all others at the leaf that both NIC ports share, or above it at a spine, or above that
// at a core (dragonfly+: between the spines of two groups). These rules give the fewest hops that
// the graph of graph.h allows when GPUs and NICs do not forward (test: Boost's search agrees). In a
// torus chips forward, dimension by dimension; slices meet over the network. A path uses the
// sender's outgoing and the receiver's incoming side of the NICs; of NVLink, PCIe and the links
// between sockets, which are full duplex, it uses the sender's side only. Links of chips in between
// are no resources.
#include <algorithm>
#include <cstdlib>

#include "state.h"

namespace stepcast::cluster {
namespace {

void over_torus(const Plan& plan, int from, int to, Path& path) {
  path.kind = PathClass::nvlink;
  const int first = plan.domain_of(from) * plan.domain_gpus;  // of the slice
  auto at = plan.torus.at(from - first);
  const auto end = plan.torus.at(to - first);
  const bool faulty = !plan.cluster.faults.empty() || !plan.cluster.overrides.empty();
  double narrow = 1e300;
  int before = from;
  for (int d = 0; d < plan.torus.dimensions; ++d) {
    const auto k = static_cast<std::size_t>(d);
    const int steps = plan.torus.steps(d, at[k], end[k]);
    path.hops += std::abs(steps);
    // Without faults all links of a dimension are alike, so it is enough to look at one.
    const int walked = faulty ? std::abs(steps) : std::min(1, std::abs(steps));
    const int size = plan.torus.size[k];
    for (int i = 0; i < walked; ++i) {
      at[k] = (at[k] + (steps > 0 ? 1 : size - 1)) % size;
      const int next = first + plan.torus.slot(at);
      narrow = std::min(narrow, std::min(plan.nvlink[before], plan.nvlink[next]) *
                                    plan.torus.cables(d) / plan.torus.chip_links);
      before = next;
    }
    at[k] = end[k];
    before = first + plan.torus.slot(at);
  }
  path.bandwidth = Bandwidth(narrow);
  path.latency = seconds(kTorusHop * path.hops);
  path.resources = {from};
}

void over_pcie(const Topology& topology, const Plan& plan, int from, int to, Path& path) {
  const int node = plan.node_of(from);
  const int a = from % plan.gpus;
  const int b = to % plan.gpus;
  const auto& host = plan.cluster.node;
  path.kind = PathClass::pcie;
  double rate = std::min(plan.pcie(from), plan.pcie(to));
  if (!plan.has_nvlink(node) && plan.nvlink[from] > 0) {
    path.resources = {from};
  }
  path.hops = 2;
  const bool tree = plan.switches() > 0;
  const bool up = tree && (plan.switch_of(a) != plan.switch_of(b) || !host.peer_to_peer);
  if (up) {
    path.hops +=
        host.peer_to_peer ? 2 : 0;  // through host memory, the path turns at the root complex
    rate = std::min(rate, plan.pcie_uplink(node));
    if (const int r = topology.pcie_uplink(from); r >= 0) {
      path.resources.push_back(r);
    }
  }
  if (plan.socket_of(a) != plan.socket_of(b)) {
    ++path.hops;
    if (const double link = host.inter_socket.count(); link > 0) {
      rate = std::min(rate, link);
      path.resources.push_back(topology.socket_link(from));
    }
  }
  path.bandwidth = Bandwidth(rate);
  path.latency = seconds(kPcieHop * path.hops);
}

void over_network(const Topology& topology, const Plan& plan, int from, int to, Path& path) {
  path.kind = PathClass::network;
  const int out = plan.port_of(from);
  const int in = plan.port_of(to);
  const int leaf_out = plan.leaf_of_port(out);
  const int leaf_in = plan.leaf_of_port(in);
  double rate = std::min(plan.port[out], plan.port[in]);
  path.hops = 4;
  double latency = 2 * plan.nic_latency();
  path.resources.reserve(4);  // the most there are
  path.resources.push_back(topology.nic_out(from));
  if (leaf_out != leaf_in) {
    const int pod_out = plan.pod_of_leaf(leaf_out);
    const int pod_in = plan.pod_of_leaf(leaf_in);
    double widest = 0;
    for (int s = 0; s < plan.spines; ++s) {
      double way = std::min(plan.leaf_bundle(leaf_out, s), plan.leaf_bundle(leaf_in, s));
      if (pod_out != pod_in) {
        way = std::min({way, plan.core_bundle(pod_out, s), plan.core_bundle(pod_in, s)});
      }
      widest = std::max(widest, way);
    }
    rate = std::min(rate, widest);
    const int switches = pod_out == pod_in ? 2 : plan.dragonfly() ? 3 : 4;  // beyond the first leaf
    path.hops += switches;
    latency += switches * kSwitchHop;
    if (const int up = topology.spine(from); up >= 0) {
      path.resources.push_back(up);
    }
    if (const int core = topology.core(from); pod_out != pod_in && core >= 0) {
      path.resources.push_back(core);
    }
  }
  path.resources.push_back(topology.nic_in(to));
  path.bandwidth = Bandwidth(rate);
  path.latency = seconds(latency);
}

}  // namespace

Path Topology::path(int from, int to) const {
  const Plan& plan = state_->plan;
  Path path;
  if (from == to) {
    path.bandwidth = device(from).memory_bandwidth;
    return path;
  }
  if (plan.torus.dimensions > 0) {
    if (plan.domain_of(from) == plan.domain_of(to)) {
      over_torus(plan, from, to, path);
    } else {
      over_network(*this, plan, from, to, path);
    }
    return path;
  }
  if (plan.domain_of(from) == plan.domain_of(to) && plan.linked(from, to)) {
    path.kind = PathClass::nvlink;
    path.hops = plan.mesh() ? 1 : 2;
    path.latency = seconds(kNvlinkHop * path.hops);
    path.resources = {from};
    const double narrow = std::min(plan.nvlink[from], plan.nvlink[to]);
    if (const MeshLinks* links = plan.links(plan.node_of(from))) {
      path.bandwidth = Bandwidth(links->between(from % plan.gpus, to % plan.gpus) *
                                 std::min(plan.nvlink_left(from), plan.nvlink_left(to)));
    } else {
      // A mesh splits a GPU's links among its peers; a switch gives all of them to one.
      path.bandwidth = Bandwidth(plan.mesh() ? narrow / (plan.domain_gpus - 1) : narrow);
    }
    return path;
  }
  if (plan.node_of(from) == plan.node_of(to)) {
    over_pcie(*this, plan, from, to, path);
  } else {
    over_network(*this, plan, from, to, path);
  }
  return path;
}

}  // namespace stepcast::cluster
