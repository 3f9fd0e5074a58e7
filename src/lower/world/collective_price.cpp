#include "collective_price.h"

#include <algorithm>

#include "../passes/slowdown.h"

namespace stepcast::lower {

program::Price price_of(const cost::CollectivePrice& c, Bytes bytes, Bandwidth memory,
                        program::LabelIndex label) {
  program::Price p;
  p.latency = c.latency;
  p.fluid = c.fluid;
  p.bytes = bytes;
  p.latency_curve = c.latency_curve;
  p.curve = c.curve;
  p.pressure_waiting = pressure_of_waiting(c);
  p.pressure = pressure_of(c, memory);
  p.label = label;
  const std::int64_t payload = std::max({c.nvlink.count(), c.nic.count(), std::int64_t{1}});
  if (p.fluid > Time{0}) {
    p.rate =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(payload) * 1e12 /
                                                            static_cast<double>(p.fluid.count())));
    const auto weight = [&](Bytes b) {
      return static_cast<std::int64_t>(static_cast<double>(b.count()) * program::kWeightOne /
                                       static_cast<double>(payload));
    };
    p.weight[0] = weight(c.nvlink);
    p.weight[1] = weight(c.nic);
    p.weight[2] = weight(c.nic);
    p.weight[3] = weight(c.spine);
  }
  return p;
}

void widen_capacities(program::World& world) {
  auto widen = [&](const auto& user) {
    for (const program::Price& price : world.shapes[user.shape].prices) {
      for (std::uint32_t u = 0; u < user.usages; ++u) {
        const auto& usage = world.usages[user.first_usage + u];
        const double demand = static_cast<double>(price.rate) *
                              static_cast<double>(price.weight[usage.kind] * usage.count) /
                              static_cast<double>(program::kWeightOne);
        auto& capacity = world.resources[usage.resource].capacity;
        capacity = std::max(capacity, static_cast<std::int64_t>(demand) + 1);
      }
    }
  };
  if (!world.resources.empty()) {
    std::for_each(world.communicators.begin(), world.communicators.end(), widen);
    std::for_each(world.channels.begin(), world.channels.end(), widen);
  }
}

}  // namespace stepcast::lower
