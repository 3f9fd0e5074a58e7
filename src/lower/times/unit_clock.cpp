#include "unit_clock.h"

#include <algorithm>

#include "../world/groups.h"
#include "stepcast/base/checked_time.h"

namespace stepcast::lower {

namespace {
void add(Time& into, Time more) { into = checked_sum(into, more); }
}  // namespace

Role stream_role(Role role) {
  switch (role) {
    case kContext:
    case kContextInner:
      return kContext;
    case kExpert:
    case kExpertTensor:
    case kTensorExpert:
      return kExpert;
    case kTensorColumn:
      return kTensorColumn;
    default:
      return kTensor;
  }
}

FirstRank::FirstRank(const strategy::Plan& plan, const cluster::Topology& topology,
                     const Prices& prices, const PriceBook& book)
    : prices_(prices), book_(book) {
  each_first_group(plan, [&](Role role, const std::vector<int>& ranks) {
    shapes_[role] = topology.shape(ranks);
  });
  const GroupLayout layout = group_layout(plan);
  const auto hops = [&](int ranks, const auto& next_of) {
    std::vector<cluster::Path> out;
    int last = 0;
    for (int n = 0; n < ranks && next_of(layout, last) != 0; ++n) {
      last = next_of(layout, last);
    }
    if (last != 0) {
      out = {topology.path(0, next_of(layout, 0)), topology.path(last, 0)};
    }
    return out;
  };
  context_hops_ = hops(plan.grid.context, next_in_context_ring);
  tensor_hops_ = hops(plan.grid.tensor, next_in_tensor_ring);
}

std::optional<cost::CollectivePrice> FirstRank::collective(const Item& item) const {
  const cluster::GroupShape& shape = shapes_[item.role];
  if (shape.ranks < 2) {
    return std::nullopt;
  }
  return book_.entries(item.role)[item.price].price(*prices_.collectives, shape);
}

std::optional<cost::CollectivePrice> FirstRank::ring(const Item& item) const {
  const Bytes bytes(book_.messages()[item.price]);
  const bool tensor = item.role == kTensor;  // in chunks, by copy engines
  std::optional<cost::CollectivePrice> out;
  for (const cluster::Path& hop : tensor ? tensor_hops_ : context_hops_) {
    const auto price = tensor ? prices_.collectives->peer_copy(bytes, hop)
                              : prices_.collectives->point_to_point(bytes, hop);
    if (!out || price.latency + price.fluid > out->latency + out->fluid) {
      out = price;
    }
  }
  return out;
}

UnitClock::UnitClock(const strategy::Plan& plan, const cost::Kernels& kernels,
                     const hardware::Device& device, const FirstRank& messages)
    : messages_(messages), device_(device), overlap_(kernels.overlap()) {
  const cost::Launch measured = kernels.launch();
  const bool graph = plan.host.cuda_graph;
  launch_ = graph ? measured.graph : std::max(plan.host.launch, measured.host);
  overhead_ = plan.host.layer_overhead;
  waits_each_launch_ = plan.host.waits_each_launch;
}

Time UnitClock::paced(const std::vector<Item>& items) const {
  std::int64_t launches = 0;
  for (const Item& item : items) {
    launches += item.kernels + item.more + item.graphed;
  }
  return launch_ + (launches > 0 ? overhead_ / launches : Time{0});
}

Time UnitClock::issue(const std::vector<Item>& items) const {
  const Time each = paced(items);
  Time out{0};
  for (const Item& item : items) {
    const bool kernel = item.kind == Item::Kind::kernel;
    add(out, each * (item.kernels + (kernel ? item.more : 0)));
    add(out, item.kind == Item::Kind::host ? item.duration : Time{0});
  }
  return out;
}

Clocks UnitClock::run(const std::vector<Item>& items, Clocks at, Spent& spent) const {
  const Time each = paced(items);
  std::array<Time, kRoles> beside;
  beside.fill(kLongAgo);
  Slowed slowed(device_, overlap_);
  const auto moved = [&](const Item& item, const std::optional<cost::CollectivePrice>& price) {
    if (!price) {
      return Time{0};
    }
    const Time duration = checked_sum(price->latency, price->fluid);
    add(spent.curves[price->latency_curve], price->latency);
    add(spent.curves[price->curve], price->fluid);
    add(spent.moved[stream_role(item.role)], duration);
    return duration;
  };
  const auto launched = [&](Time ends) {
    if (waits_each_launch_) {
      at.host = std::max(at.host, ends);
    }
  };
  const auto travels = [&](const Item& item, const std::optional<cost::CollectivePrice>& price) {
    if (price) {
      slowed.launched(stream_role(item.role), *price);
    }
    return moved(item, price);
  };
  const auto join = [&](Role role) {
    at.compute = checked_sum(at.compute, slowed.lost(role));
    slowed.idle(std::max(Time{0}, beside[role] - at.compute));
    at.compute = std::max(at.compute, beside[role]);
  };
  for (const Item& item : items) {
    Time& stream = beside[stream_role(item.role)];
    at.host += each * item.kernels;
    const Time start = std::max(at.host, at.compute);
    switch (item.kind) {
      case Item::Kind::kernel:
        slowed.idle(start - at.compute);
        slowed.ran(item.slowdown);
        at.compute = checked_sum(start, item.duration);
        add(spent.kernels, item.duration);
        add(spent.curves[item.curve], item.duration);
        launched(at.compute);
        at.host += each * item.more;
        break;
      case Item::Kind::collective: {
        const Time takes = moved(item, messages_.collective(item));
        slowed.idle(checked_sum(start - at.compute, takes));
        at.compute = checked_sum(start, takes);
        launched(at.compute);
        break;
      }
      case Item::Kind::async:
        stream = checked_sum(std::max(stream, start), travels(item, messages_.collective(item)));
        launched(stream);
        break;
      case Item::Kind::ring:
        stream = checked_sum(std::max(stream, start), travels(item, messages_.ring(item)));
        break;
      case Item::Kind::join:
        join(stream_role(item.role));
        break;
      case Item::Kind::sync:
        at.host = std::max(at.host, at.compute);
        break;
      case Item::Kind::host:
        add(at.host, item.duration);
        break;
      case Item::Kind::model:
      case Item::Kind::tile:
        break;
    }
  }
  for (std::size_t role = 0; role < beside.size(); ++role) {
    join(static_cast<Role>(role));
  }
  return at;
}

}  // namespace stepcast::lower
