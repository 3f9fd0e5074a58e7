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

// NVLink: a switch per domain, or pairs of a mesh.
void draw_nvlink(const Plan& plan, Drawing& d) {
  const auto has = [&](int slot) { return plan.has_nvlink(plan.node_of(slot)); };
  for (int first = 0; first < plan.slots(); first += plan.domain_gpus) {
    const int last = std::min(first + plan.domain_gpus, plan.slots());
    if (plan.mesh()) {
      for (int a = first; a < last; ++a) {
        for (int b = a + 1; b < last; ++b) {
          if (!plan.linked(a, b)) {
            continue;
          }
          const MeshLinks* links = plan.links(plan.node_of(a));
          const double rate =
              links != nullptr ? links->between(a % plan.gpus, b % plan.gpus) *
                                     std::min(plan.nvlink_left(a), plan.nvlink_left(b))
                               : std::min(plan.nvlink[a], plan.nvlink[b]) / (plan.domain_gpus - 1);
          d.join(a, b, rate, kNvlinkHop);
        }
      }
      continue;
    }
    int hub = -1;
    for (int slot = first; slot < last; ++slot) {
      if (has(slot)) {
        if (hub < 0) {
          const int domain = first / plan.domain_gpus;
          hub = d.add(VertexKind::nvswitch, "domain" + std::to_string(domain) + "/nvswitch",
                      plan.domain_gpus <= plan.gpus ? plan.node_of(first) : -1);
        }
        d.join(slot, hub, plan.nvlink[slot], kNvlinkHop);
      }
    }
  }
}

// Whether some GPUs of a node reach each other only over PCIe.
bool needs_pcie(const Plan& plan, int node) {
  if (!plan.has_nvlink(node) || plan.domain_gpus < plan.gpus) {
    return true;
  }
  const int first = node * plan.gpus;
  for (int a = first; a < first + plan.gpus; ++a) {
    for (int b = a + 1; b < first + plan.gpus; ++b) {
      if (!plan.linked(a, b)) {
        return true;
      }
    }
  }
  return false;
}

// PCIe inside each node, where it carries traffic between GPUs: a root complex per socket, switches
// below it. Where GPUs do not reach each other directly, switches only pass data up to the root.
void draw_pcie(const Plan& plan, Drawing& d) {
  const auto& host = plan.cluster.node;
  const double far = host.inter_socket.count();
  for (int node = 0; node < plan.cluster.nodes; ++node) {
    if (!needs_pcie(plan, node)) {
      continue;
    }
    const int root = static_cast<int>(d.picture.vertices.size());
    for (int s = 0; s < plan.sockets(); ++s) {
      d.add(VertexKind::pcie_switch, in_node(node, "root", s), node);
      for (int other = 0; other < s; ++other) {
        d.join(root + s, root + other, far > 0 ? far : 1e15, kPcieHop);
      }
    }
    const bool switched = plan.switches() > 0 && host.peer_to_peer;
    const int first_switch = static_cast<int>(d.picture.vertices.size());
    for (int s = 0; switched && s < plan.switches(); ++s) {
      d.add(VertexKind::pcie_switch, in_node(node, "pcie", s), node);
      d.join(first_switch + s, root + s * plan.sockets() / plan.switches(), plan.pcie_uplink(node),
             kPcieHop);
    }
    for (int local = 0; local < plan.gpus; ++local) {
      const int slot = node * plan.gpus + local;
      const double rate = plan.pcie(slot);
      if (switched) {
        d.join(slot, first_switch + plan.switch_of(local), rate, kPcieHop);
      } else {
        const double up = plan.switches() > 0 ? plan.pcie_uplink(node) : rate;
        d.join(slot, root + plan.socket_of(local), std::min(rate, up), kPcieHop);
      }
    }
  }
}

void draw_torus(const Plan& plan, Drawing& d) {
  const Torus& torus = plan.torus;
  for (int slot = 0; slot < plan.slots(); ++slot) {
    const int first = plan.domain_of(slot) * plan.domain_gpus;  // of the slice
    for (int k = 0; k < torus.dimensions; ++k) {
      auto at = torus.at(slot - first);
      const auto dim = static_cast<std::size_t>(k);
      const bool last = at[dim] + 1 == torus.size[dim];
      if (last && (!torus.wraps[dim] || torus.size[dim] <= 2)) {
        continue;
      }
      at[dim] = last ? 0 : at[dim] + 1;
      const int next = first + torus.slot(at);
      d.join(slot, next,
             std::min(plan.nvlink[slot], plan.nvlink[next]) * torus.cables(k) / torus.chip_links,
             kTorusHop);
    }
  }
}

void draw_network(const Plan& plan, Drawing& d) {
  const int first_port = static_cast<int>(d.picture.vertices.size());
  for (int p = 0; p < static_cast<int>(plan.port.size()); ++p) {
    const int nic = (p % plan.ports) * plan.cluster.node.nics / plan.ports;
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
    if (plan.port[p] > 0) {
      d.join(first_port + p, first_leaf + plan.leaf_of_port(p), plan.port[p], plan.nic_latency());
    }
  }
  const int first_spine = static_cast<int>(d.picture.vertices.size());
  for (int s = 0; s < plan.pods * plan.spines; ++s) {
    d.add(VertexKind::spine, "spine" + std::to_string(s), -1);
  }
  const auto spine = [&](int pod, int s) { return first_spine + pod * plan.spines + s; };
  const auto join = [&](int a, int b, double rate) {
    if (rate > 0) {
      d.join(a, b, rate, kSwitchHop);
    }
  };
  for (int s = 0; s < plan.spines; ++s) {
    for (int leaf = 0; leaf < leaves; ++leaf) {
      join(first_leaf + leaf, spine(plan.pod_of_leaf(leaf), s), plan.leaf_bundle(leaf, s));
    }
    if (plan.pods == 1) {
      continue;
    }
    const int core =
        plan.dragonfly() ? -1 : d.add(VertexKind::core, "core" + std::to_string(s), -1);
    for (int pod = 0; pod < plan.pods; ++pod) {
      for (int other = 0; plan.dragonfly() && other < pod; ++other) {
        join(spine(pod, s), spine(other, s),
             std::min(plan.core_bundle(pod, s), plan.core_bundle(other, s)));
      }
      if (core >= 0) {
        join(spine(pod, s), core, plan.core_bundle(pod, s));
      }
    }
  }
}

}  // namespace

Picture draw(const Plan& plan) {
  Drawing d;
  for (int slot = 0; slot < plan.slots(); ++slot) {  // a slot is its GPU's vertex
    d.add(plan.torus.dimensions > 0 ? VertexKind::chip : VertexKind::gpu,
          in_node(plan.node_of(slot), "gpu", slot % plan.gpus), plan.node_of(slot));
  }
  if (plan.torus.dimensions > 0) {
    draw_torus(plan, d);
    if (plan.ports > 0) {
      draw_network(plan, d);
    }
    return std::move(d.picture);
  }
  draw_nvlink(plan, d);
  draw_pcie(plan, d);
  if (plan.ports > 0) {
    draw_network(plan, d);
  }
  return std::move(d.picture);
}

Way shortest_way(const std::vector<Vertex>& vertices, const std::vector<Link>& links, int from,
                 int to) {
  using Graph = boost::compressed_sparse_row_graph<boost::directedS>;
  const auto end_only = [&](int v) { return vertices[v].kind == VertexKind::gpu; };
  // NICs do not loop back: two GPUs of one node do not communicate through the NIC that they share.
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
