// Queries to a topology, and conditions that every answer must satisfy.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "fuzz.h"
#include "stepcast/cluster/topology.h"

namespace stepcast::fuzz {

inline void check_path(const cluster::Path& path) {
  require(path.hops >= 0, "a path of negative length");
  require(path.latency >= Time{0}, "a path back in time");
  require(path.kind == cluster::PathClass::self ||
              (std::isfinite(path.bandwidth.count()) && path.bandwidth > Bandwidth(0)),
          "a path without bandwidth");
}

inline void ask(const cluster::Topology& topology) {
  const int devices = topology.devices();
  require(devices >= 1, "a topology without a device");
  // Slots all over the cluster, so that nodes, leaves and pods differ.
  std::vector<int> slots;
  constexpr int kSlots = 9;
  for (int i = 0; i < kSlots; ++i) {
    slots.push_back(static_cast<int>(std::int64_t{devices - 1} * i / (kSlots - 1)));
  }
  slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
  for (const int from : slots) {
    require(topology.node_of(from) >= 0 && topology.domain_of(from) >= 0,
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
    require(shape.ranks == static_cast<int>(group.size()), "a group of another size");
    require(shape.domains >= 1 && shape.domains <= shape.ranks, "domains");
    require(shape.nodes >= 1 && shape.nodes <= shape.ranks, "nodes");
    require(shape.network_latency >= Time{0}, "a negative latency");
    for (const double share : {shape.hash.share().mean, shape.hash.share().low,
                               shape.hash.share().high, shape.pairs_hash.share().mean,
                               shape.pairs_hash.share().low, shape.pairs_hash.share().high}) {
      require(share > 0 && share <= 1 + 1e-9, "a share that hashing cannot leave");
    }
    for (const Bandwidth rate :
         {shape.nvlink, shape.nic_per_rank, shape.nic_per_domain, shape.pairs_nic_per_domain}) {
      require(std::isfinite(rate.count()) && rate >= Bandwidth(0), "a rate that is none");
    }
    require(shape.domains == 1 || shape.nic_per_domain > Bandwidth(0),
            "domains that cannot reach each other");
  }
  if (devices <= kAll) {
    const auto resources = topology.resources().size();
    for (const int slot : all) {
      for (const int resource : {topology.nvlink_port(slot), topology.nic_out(slot),
                                 topology.nic_in(slot), topology.spine(slot), topology.core(slot),
                                 topology.pcie_uplink(slot), topology.socket_link(slot)}) {
        require(resource >= -1 && resource < static_cast<int>(resources),
                "a resource that is none");
      }
    }
    for (const cluster::Resource& resource : topology.resources()) {
      require(std::isfinite(resource.capacity.count()) && resource.capacity >= Bandwidth(0),
              "a capacity that is none");
    }
    const auto vertices = static_cast<int>(topology.vertices().size());
    for (const cluster::Link& link : topology.links()) {
      require(link.from >= 0 && link.from < vertices && link.to >= 0 && link.to < vertices,
              "a link to nowhere");
    }
  }
}

}  // namespace stepcast::fuzz
