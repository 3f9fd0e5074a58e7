// The reader of a cluster description, from its text to the topology and what is asked of it.
#include <algorithm>
#include <cmath>
#include <vector>

#include "fuzz.h"
#include "stepcast/cluster/topology.h"
#include "stepcast/config/config.h"

using namespace stepcast;

namespace {

void check_path(const cluster::Path& path) {
  fuzz::require(path.hops >= 0, "a path of negative length");
  fuzz::require(path.latency >= Time{0}, "a path back in time");
  fuzz::require(path.kind == cluster::PathClass::self ||
                    (std::isfinite(path.bandwidth.count()) && path.bandwidth > Bandwidth(0)),
                "a path without bandwidth");
}

void query(const cluster::Topology& topology) {
  const int devices = topology.devices();
  fuzz::require(devices >= 1, "a topology without a device");
  // Slots across the cluster, so that nodes, leaves and pods differ.
  std::vector<int> slots;
  constexpr int kSlots = 9;
  for (int i = 0; i < kSlots; ++i) {
    slots.push_back(static_cast<int>(std::int64_t{devices - 1} * i / (kSlots - 1)));
  }
  slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
  for (const int from : slots) {
    fuzz::require(topology.node_of(from) >= 0 && topology.domain_of(from) >= 0,
                  "a device without a place");
    for (const int to : slots) {
      check_path(topology.path(from, to));
    }
  }
  constexpr int kAll = 4096;
  std::vector<int> all(static_cast<std::size_t>(std::min(devices, kAll)));
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = static_cast<int>(i);
  }
  for (const std::vector<int>& group :
       {std::vector<int>{0}, slots, all,
        std::vector<int>(all.begin(), all.begin() + (all.size() + 1) / 2)}) {
    const cluster::GroupShape shape = topology.shape(group);
    fuzz::require(shape.ranks == static_cast<int>(group.size()), "a group of another size");
    fuzz::require(shape.domains >= 1 && shape.domains <= shape.ranks, "domains");
    fuzz::require(shape.nodes >= 1 && shape.nodes <= shape.ranks, "nodes");
    fuzz::require(shape.network_latency >= Time{0}, "a negative latency");
  }
  if (devices <= kAll) {
    const auto resources = topology.resources().size();
    for (const int slot : all) {
      for (const int resource : {topology.nvlink_port(slot), topology.nic_out(slot),
                                 topology.nic_in(slot), topology.spine(slot)}) {
        fuzz::require(resource >= -1 && resource < static_cast<int>(resources),
                      "a resource that is none");
      }
    }
    const auto vertices = static_cast<int>(topology.vertices().size());
    for (const cluster::Link& link : topology.links()) {
      fuzz::require(link.from >= 0 && link.from < vertices && link.to >= 0 && link.to < vertices,
                    "a link to nowhere");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::read([&] {
    const std::string_view text = fuzz::text(data, size);
    const std::string file = fuzz::file_with(text, ".yaml");
    // Files of configs/clusters leave the number of nodes to the job.
    const int nodes = text.find("nodes:") == std::string_view::npos ? 16 : 0;
    const config::Network network = config::network(file, nodes);
    const auto built = cluster::Topology::build(network.cluster);
    if (const auto* topology = std::get_if<cluster::Topology>(&built)) {
      query(*topology);
    }
  });
  return 0;
}
