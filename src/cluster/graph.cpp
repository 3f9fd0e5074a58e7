#include "graph.h"

#include <algorithm>
#include <boost/graph/breadth_first_search.hpp>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/filtered_graph.hpp>
#include <string>
#include <utility>

namespace stepcast::cluster {
namespace {

std::string in_node(int node, const char* kind, int index) {
  return "node" + std::to_string(node) + "/" + kind + std::to_string(index);
}

class Drawing {
 public:
  int add(VertexKind kind, std::string name, int node) {
    picture.vertices.push_back({kind, std::move(name), node});
    return static_cast<int>(picture.vertices.size()) - 1;
  }
  void join(int a, int b, double rate, double latency) {
    picture.links.push_back({a, b, Bandwidth(rate), seconds(latency)});
    picture.links.push_back({b, a, Bandwidth(rate), seconds(latency)});
  }
  Picture picture;
};

}  // namespace

Picture draw(const Plan& plan) {
  Drawing d;
  const auto& c = plan.cluster;
  for (int slot = 0; slot < plan.slots(); ++slot) {  // a slot is its GPU's vertex
    d.add(VertexKind::gpu, in_node(plan.node_of(slot), "gpu", slot % plan.gpus),
          plan.node_of(slot));
  }
  const auto linked = [&](int slot) { return plan.has_nvlink(plan.node_of(slot)); };
  // NVLink: a switch per domain, or pairs of a mesh.
  for (int first = 0; first < plan.slots(); first += plan.domain_gpus) {
    const int last = std::min(first + plan.domain_gpus, plan.slots());
    if (plan.mesh()) {
      for (int a = first; a < last; ++a) {
        for (int b = a + 1; b < last; ++b) {
          if (linked(a) && linked(b)) {
            const double rate = std::min(plan.nvlink[a], plan.nvlink[b]) / (plan.domain_gpus - 1);
            d.join(a, b, rate, kNvlinkHop);
          }
        }
      }
      continue;
    }
    int hub = -1;
    for (int slot = first; slot < last; ++slot) {
      if (linked(slot)) {
        if (hub < 0) {
          const int domain = first / plan.domain_gpus;
          hub = d.add(VertexKind::nvswitch, "domain" + std::to_string(domain) + "/nvswitch",
                      plan.domain_gpus <= plan.gpus ? plan.node_of(first) : -1);
        }
        d.join(slot, hub, plan.nvlink[slot], kNvlinkHop);
      }
    }
  }
  // PCIe inside each node, where it carries traffic between GPUs.
  for (int node = 0; node < c.nodes; ++node) {
    if (plan.has_nvlink(node) && plan.domain_gpus >= plan.gpus) {
      continue;
    }
    const int hub = d.add(VertexKind::pcie_switch, in_node(node, "pcie", 0), node);
    for (int local = 0; local < plan.gpus; ++local) {
      const int slot = node * plan.gpus + local;
      const double pcie = plan.devices[node]->pcie.count();
      d.join(slot, hub, plan.has_nvlink(node) ? pcie : plan.nvlink[slot], kPcieHop);
    }
  }
  if (plan.ports == 0) {
    return std::move(d.picture);
  }
  const int first_port = static_cast<int>(d.picture.vertices.size());
  for (int p = 0; p < static_cast<int>(plan.port.size()); ++p) {
    const int nic = (p % plan.ports) * c.node.nics / plan.ports;
    d.add(VertexKind::nic, in_node(p / plan.ports, "nic", nic), p / plan.ports);
  }
  for (int slot = 0; slot < plan.slots(); ++slot) {
    const int p = plan.port_of(slot);
    d.join(slot, first_port + p, plan.port[p], 0);
  }
  const int leaves = static_cast<int>(plan.uplink.size());
  const int first_leaf = static_cast<int>(d.picture.vertices.size());
  for (int leaf = 0; leaf < leaves; ++leaf) {
    d.add(VertexKind::leaf, "leaf" + std::to_string(leaf), -1);
  }
  for (int p = 0; p < static_cast<int>(plan.port.size()); ++p) {
    d.join(first_port + p, first_leaf + plan.leaf_of_port(p), plan.port[p], plan.nic_latency());
  }
  for (int s = 0; s < plan.spines; ++s) {
    const int spine = d.add(VertexKind::spine, "spine" + std::to_string(s), -1);
    for (int leaf = 0; leaf < leaves; ++leaf) {
      d.join(first_leaf + leaf, spine, plan.uplink[leaf] / plan.spines, kSwitchHop);
    }
  }
  return std::move(d.picture);
}

Way shortest_way(const std::vector<Vertex>& vertices, const std::vector<Link>& links, int from,
                 int to) {
  using Graph = boost::compressed_sparse_row_graph<boost::directedS>;
  const auto end_only = [&](int v) { return vertices[v].kind == VertexKind::gpu; };
  // NICs do not loop back: GPUs of one node do not meet at the NIC that they share.
  const bool same_node = vertices[from].node == vertices[to].node;
  const auto is_nic = [&](int v) { return vertices[v].kind == VertexKind::nic; };
  // Leave out links into GPUs that are not the end and out of GPUs that are not the beginning: GPUs
  // do not forward.
  std::vector<std::pair<int, int>> edges;
  std::vector<double> rate;
  std::vector<std::pair<std::pair<int, int>, double>> kept;
  for (const auto& link : links) {
    if ((end_only(link.from) && link.from != from) || (end_only(link.to) && link.to != to) ||
        (same_node && (is_nic(link.from) || is_nic(link.to)))) {
      continue;
    }
    kept.push_back({{link.from, link.to}, link.capacity.count()});
  }
  std::sort(kept.begin(), kept.end());
  for (const auto& [edge, r] : kept) {
    edges.push_back(edge);
    rate.push_back(r);
  }
  const Graph graph(boost::edges_are_sorted, edges.begin(), edges.end(), vertices.size());
  std::vector<int> hops(vertices.size(), -1);
  hops[from] = 0;
  std::vector<boost::default_color_type> colour(vertices.size());
  const auto index = boost::get(boost::vertex_index, graph);
  boost::breadth_first_search(
      graph, boost::vertex(from, graph),
      boost::visitor(
          boost::make_bfs_visitor(boost::record_distances(hops.data(), boost::on_tree_edge{})))
          .color_map(boost::make_iterator_property_map(colour.begin(), index)));
  Way way{hops[to], 0};
  if (way.hops < 0) {
    return way;
  }
  // Widest among the shortest: relax edges level by level.
  std::vector<double> width(vertices.size(), 0);
  width[from] = 1e300;
  for (int level = 0; level < way.hops; ++level) {
    for (std::size_t e = 0; e < edges.size(); ++e) {
      const auto [a, b] = edges[e];
      if (hops[a] == level && hops[b] == level + 1) {
        width[b] = std::max(width[b], std::min(width[a], rate[e]));
      }
    }
  }
  way.bandwidth = width[to];
  return way;
}

}  // namespace stepcast::cluster
