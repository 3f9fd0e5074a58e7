// Flows in SimGrid with plain max-min sharing: model CM02 without cross-traffic, TCP window or
// latency.
//
// Flows start outside any actor, so SimGrid switches no stacks and sanitizers work. Version 3.32
// ignores set_rate() on such flows, so a cap is a private link of that capacity, which gives the
// same equation.
#pragma once

#include <cstdint>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

#include "support/flows.h"

namespace stepcast::testing {

// SimGrid allows one engine per process.
inline void configure_simgrid() {
  static int count = 2;
  static char program[] = "simgrid";
  static char quiet[] = "--log=xbt_cfg.thres:critical";
  static char* arguments[] = {program, quiet, nullptr};
  static simgrid::s4u::Engine engine(&count, arguments);
  for (const char* option :
       {"network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:0",
        "network/bandwidth-factor:1", "network/latency-factor:1", "network/weight-S:0",
        "network/loopback-bw:0", "surf/precision:1e-9", "maxmin/precision:1e-9"}) {
    simgrid::s4u::Engine::set_config(option);
  }
}

// One network in a separate zone. Flow i runs between two artificial hosts whose route is its
// links.
class SimgridNetwork {
 public:
  SimgridNetwork(simgrid::s4u::NetZone* root, const std::string& name,
                 const std::vector<Resource>& links, const std::vector<Flow>& flows)
      : comms(flows.size()) {
    namespace s4u = simgrid::s4u;
    auto* zone = s4u::create_full_zone(name);
    zone->set_parent(root);
    std::vector<s4u::Link*> made;
    for (const Resource& link : links) {
      made.push_back(new_link(zone, name + "/link" + std::to_string(made.size()), link.capacity));
    }
    // A full zone has a table of all pairs, so n flows use sqrt(n) senders and as many receivers.
    while (side_ * side_ < flows.size()) {
      ++side_;
    }
    for (std::size_t h = 0; h < 2 * side_; ++h) {
      hosts_.push_back(zone->create_host(name + "/host" + std::to_string(h), 1.0)->seal());
    }
    for (std::size_t i = 0; i < flows.size(); ++i) {
      std::vector<s4u::LinkInRoute> route;
      std::int64_t narrowest = flows[i].cap + 1;
      for (const ResourceId link : flows[i].links) {
        route.emplace_back(made[link]);
        narrowest = std::min(narrowest, links[link].capacity);
      }
      if (flows[i].cap < narrowest) {
        route.emplace_back(new_link(zone, name + "/cap" + std::to_string(i), flows[i].cap));
      }
      zone->add_route(from(i)->get_netpoint(), to(i)->get_netpoint(), nullptr, nullptr, route,
                      false);
    }
    zone->seal();
  }

  void start(std::size_t i, const Flow& flow) {
    comms[i] = simgrid::s4u::Comm::sendto_init();
    comms[i]->set_payload_size(static_cast<std::uint64_t>(flow.bytes));
    comms[i]->set_source(from(i));
    comms[i]->set_destination(to(i));  // starts the flow
  }

  std::vector<simgrid::s4u::CommPtr> comms;

 private:
  static simgrid::s4u::Link* new_link(simgrid::s4u::NetZone* zone, const std::string& name,
                                      std::int64_t capacity) {
    return zone->create_link(name, static_cast<double>(capacity))->set_latency(0)->seal();
  }
  simgrid::s4u::Host* from(std::size_t i) const { return hosts_[i / side_]; }
  simgrid::s4u::Host* to(std::size_t i) const { return hosts_[side_ + i % side_]; }

  std::size_t side_ = 1;
  std::vector<simgrid::s4u::Host*> hosts_;
};

}  // namespace stepcast::testing
