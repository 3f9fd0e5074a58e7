// LAW: GPUs of one domain meet at their NVLink switch (or, in a mesh, directly); GPUs of one node
// that share no NVLink meet at the PCIe switch; all others at the leaf that both NIC ports share,
// or above it at a spine. These rules give the fewest hops that the graph of graph.h allows when
// GPUs and NICs do not forward (test: Boost's search agrees). A resource is charged where the
// sender leaves it and where the receiver takes it in; NVLink is full duplex and charges the
// sender's port only.
#include <algorithm>

#include "state.h"

namespace stepcast::cluster {

Path Topology::path(int from, int to) const {
  const Plan& plan = state_->plan;
  Path path;
  if (from == to) {
    path.bandwidth = device(from).memory_bandwidth;
    return path;
  }
  const bool same_node = plan.node_of(from) == plan.node_of(to);
  const bool linked = plan.has_nvlink(plan.node_of(from)) && plan.has_nvlink(plan.node_of(to));
  if (plan.domain_of(from) == plan.domain_of(to) && linked) {
    const double narrow = std::min(plan.nvlink[from], plan.nvlink[to]);
    path.kind = PathClass::nvlink;
    // A mesh splits a GPU's links among its peers; a switch gives all of them to one.
    path.bandwidth = Bandwidth(plan.mesh() ? narrow / (plan.domain_gpus - 1) : narrow);
    path.hops = plan.mesh() ? 1 : 2;
    path.latency = seconds(kNvlinkHop * path.hops);
    path.resources = {from};
    return path;
  }
  if (same_node) {
    path.kind = PathClass::pcie;
    const double rate = device(from).pcie.count();
    const bool ported = !plan.has_nvlink(plan.node_of(from));
    path.bandwidth = Bandwidth(ported ? std::min(plan.nvlink[from], plan.nvlink[to]) : rate);
    path.hops = 2;
    path.latency = seconds(kPcieHop * path.hops);
    if (ported && plan.nvlink[from] > 0) {
      path.resources = {from};
    }
    return path;
  }
  path.kind = PathClass::network;
  const int out = plan.port_of(from);
  const int in = plan.port_of(to);
  const int leaf_out = plan.leaf_of_port(out);
  const int leaf_in = plan.leaf_of_port(in);
  double rate = std::min(plan.port[out], plan.port[in]);
  path.hops = 4;
  double latency = 2 * plan.nic_latency();
  path.resources = {nic_out(from)};
  if (leaf_out != leaf_in) {
    rate =
        std::min({rate, plan.uplink[leaf_out] / plan.spines, plan.uplink[leaf_in] / plan.spines});
    path.hops = 6;
    latency += 2 * kSwitchHop;
    if (const int up = spine(from); up >= 0) {
      path.resources.push_back(up);
    }
  }
  path.resources.push_back(nic_in(to));
  path.bandwidth = Bandwidth(rate);
  path.latency = seconds(latency);
  return path;
}

}  // namespace stepcast::cluster
