// Prices of a world's communicators and paths by shape, and of what lies beyond the GPUs.
#include <algorithm>

#include "../offload/host_prices.h"
#include "collective_price.h"
#include "world_draft.h"

namespace stepcast::lower {

using cluster::GroupShape;

namespace {

// Of the device with the least: a price holds for groups of any.
Bandwidth memory_bandwidth(const WorldDraft& w) {
  Bandwidth least = w.kinds.devices().front()->memory_bandwidth;
  for (const hardware::Device* d : w.kinds.devices()) {
    least = std::min(least, d->memory_bandwidth);
  }
  return least;
}

}  // namespace

void price_shapes(WorldDraft& w) {
  w.world.shapes.resize(w.shapes.size());
  const Bandwidth memory = memory_bandwidth(w);
  for (std::size_t i = 0; i < w.shapes.size(); ++i) {
    const DraftShape& s = w.shapes[i];
    auto& out = w.world.shapes[i].prices;
    if (s.role == kRoles) {
      for (const std::int64_t bytes : w.book.messages()) {
        out.push_back(
            price_of(s.copies ? w.prices.collectives->peer_copy(Bytes(bytes), s.path)
                              : w.prices.collectives->point_to_point(Bytes(bytes), s.path, s.peers),
                     Bytes(bytes), memory, w.labels.id(s.copies ? "copy" : "send")));
      }
      continue;
    }
    for (const PriceBook::Entry& e : w.book.entries(s.role)) {
      const auto c = e.price(*w.prices.collectives, s.group);
      w.shapes[i].algorithms.push_back(c.algorithm);
      w.shapes[i].tokens.push_back(e.tokens.has_value());
      const auto label = w.labels.id(e.name() + " " + cost::to_string(c.algorithm) + " " +
                                     cost::to_string(c.protocol));
      out.push_back(price_of(c, Bytes(e.bytes), memory, label));
    }
  }
  widen_capacities(w.world);
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
