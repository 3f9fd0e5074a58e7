// Prices of a world's communicators and paths by shape, and of what lies beyond the GPUs.
#include <algorithm>

#include "host_prices.h"
#include "slowdown.h"
#include "world_draft.h"

namespace stepcast::lower {

using cluster::GroupShape;

program::ShapeId shape_id(WorldDraft& w, Role role, const GroupShape& shape) {
  for (std::uint32_t i = 0; i < w.shapes.size(); ++i) {
    if (w.shapes[i].role == role && w.shapes[i].group == shape) {
      return program::ShapeId::at(i);
    }
  }
  w.shapes.push_back({role, shape, {}, false, {}, {}});
  return program::ShapeId::at(w.shapes.size() - 1);
}

program::ShapeId path_shape(WorldDraft& w, const cluster::Path& path, bool copies) {
  for (std::uint32_t i = 0; i < w.shapes.size(); ++i) {
    const auto& s = w.shapes[i];
    if (s.role == kRoles && s.copies == copies && s.path.kind == path.kind &&
        s.path.bandwidth == path.bandwidth && s.path.latency == path.latency &&
        s.path.hops == path.hops) {
      return program::ShapeId::at(i);
    }
  }
  w.shapes.push_back({kRoles, {}, path, copies, {}, {}});
  return program::ShapeId::at(w.shapes.size() - 1);
}

namespace {

// Of the device with the least: a price holds for groups of any.
Bandwidth memory_bandwidth(const WorldDraft& w) {
  Bandwidth least = w.kinds.devices().front()->memory_bandwidth;
  for (const hardware::Device* d : w.kinds.devices()) {
    least = std::min(least, d->memory_bandwidth);
  }
  return least;
}

program::Price price_of(WorldDraft& w, const cost::CollectivePrice& c, std::int64_t bytes,
                        const std::string& label) {
  program::Price p;
  p.latency = c.latency;
  p.fluid = c.fluid;
  p.bytes = Bytes(bytes);
  p.latency_curve = c.latency_curve;
  p.curve = c.curve;
  p.pressure = pressure_of(c, memory_bandwidth(w));
  p.label = w.labels.id(label);
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

}  // namespace

void price_shapes(WorldDraft& w) {
  w.world.shapes.resize(w.shapes.size());
  for (std::size_t i = 0; i < w.shapes.size(); ++i) {
    const DraftShape& s = w.shapes[i];
    auto& out = w.world.shapes[i].prices;
    if (s.role == kRoles) {
      for (const std::int64_t bytes : w.book.messages()) {
        out.push_back(price_of(w,
                               s.copies
                                   ? w.prices.collectives->peer_copy(Bytes(bytes), s.path)
                                   : w.prices.collectives->point_to_point(Bytes(bytes), s.path),
                               bytes, s.copies ? "copy" : "send"));
      }
      continue;
    }
    for (const PriceBook::Entry& e : w.book.entries(s.role)) {
      const auto c = e.price(*w.prices.collectives, s.group);
      w.shapes[i].algorithms.push_back(c.algorithm);
      w.shapes[i].tokens.push_back(e.tokens.has_value());
      out.push_back(price_of(
          w, c, e.bytes,
          e.name() + " " + cost::to_string(c.algorithm) + " " + cost::to_string(c.protocol)));
    }
  }
  // An operation alone never exceeds what it was measured at: capacity is at least any single
  // demand.
  auto widen = [&](const auto& user) {
    for (const program::Price& price : w.world.shapes[user.shape].prices) {
      for (std::uint32_t u = 0; u < user.usages; ++u) {
        const auto& usage = w.world.usages[user.first_usage + u];
        const double demand = static_cast<double>(price.rate) *
                              static_cast<double>(price.weight[usage.kind] * usage.count) /
                              static_cast<double>(program::kWeightOne);
        auto& capacity = w.world.resources[usage.resource].capacity;
        capacity = std::max(capacity, static_cast<std::int64_t>(demand) + 1);
      }
    }
  };
  if (!w.world.resources.empty()) {
    std::for_each(w.world.communicators.begin(), w.world.communicators.end(), widen);
    std::for_each(w.world.channels.begin(), w.world.channels.end(), widen);
  }
}

std::vector<program::Curve> add_host_side(WorldDraft& w) {
  std::vector<const cost::Kernels*> kernels;
  for (const hardware::Device* device : w.kinds.devices()) {
    kernels.push_back(w.prices.kernels.at(device->name));
  }
  std::vector<int> rows;
  for (std::size_t r = 0; r < w.world.ranks.size(); ++r) {
    rows.push_back(w.kinds.device_of(static_cast<int>(r)));
  }
  return add_host(w.world, w.plan, w.topology, w.book, w.labels, kernels, w.kinds.devices(), rows,
                  program::CurveId::at(w.prices.curves->curves().size()));
}

}  // namespace stepcast::lower
