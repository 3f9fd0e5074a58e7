// A layer alone on one rank, as a benchmark times it: its host starts with each pass, then
// launches, waits and works as the stage's does (stage_state.cpp: issue).
#include <algorithm>
#include <array>

#include "../passes/passes.h"
#include "../world/groups.h"
#include "stepcast/lower/lower.h"

namespace stepcast::lower {
namespace {

using cluster::GroupShape;
using cluster::Topology;

// Operators of an expert layer proper: Megatron-LM's MoELayer has neither the norm before it nor
// the sum behind it.
model::OperatorGraph experts_of(const model::OperatorGraph& whole) {
  model::OperatorGraph out;
  std::vector<int> place(whole.operators.size(), -1);
  for (std::size_t i = 0; i < whole.operators.size(); ++i) {
    const model::Operator& op = whole.operators[i];
    const bool inside =
        op.module == model::Module::moe || op.module == model::Module::shared_expert;
    if (inside && op.kind != model::OpKind::norm && op.kind != model::OpKind::residual) {
      place[i] = static_cast<int>(out.operators.size());
      out.operators.push_back(op);
    }
  }
  for (const auto& [from, to] : whole.edges) {
    const int a = place[static_cast<std::size_t>(from)];
    const int b = place[static_cast<std::size_t>(to)];
    if (a >= 0 && b >= 0) {
      out.edges.emplace_back(a, b);
    }
  }
  return out;
}

// The streams of one rank and its host, all idle at first.
class Clock {
 public:
  Clock(const strategy::Plan& plan, const Topology& topology, const Prices& prices,
        const hardware::Device& device, const PriceBook& book)
      : prices_(prices), book_(book) {
    const cost::Launch measured = prices.kernels.at(device.name)->launch();
    const bool graph = plan.host.cuda_graph;
    launch_ = graph ? measured.graph : std::max(plan.host.launch, measured.host);
    overhead_ = plan.host.layer_overhead;
    waits_each_launch_ = plan.host.waits_each_launch;
    each_group(plan, [&](Role role, const std::vector<int>& ranks) {
      if (std::find(ranks.begin(), ranks.end(), 0) != ranks.end()) {
        shapes_[role] = topology.shape(ranks);
      }
    });
  }

  Time run(const std::vector<Item>& items, std::map<cost::CurveId, Time>& curves) {
    std::int64_t launches = 0;
    for (const Item& item : items) {
      launches += item.kernels + item.more + item.graphed;
    }
    const Time paced = launch_ + (launches > 0 ? overhead_ / launches : Time{0});
    Time host{0};
    Time compute{0};
    std::array<Time, kRoles> beside{};
    for (const Item& item : items) {
      host += paced * item.kernels;
      const Time start = std::max(host, compute);
      switch (item.kind) {
        case Item::Kind::kernel:
          compute = start + item.duration;
          curves[item.curve] += item.duration;
          host = launched(host, compute) + paced * item.more;
          break;
        case Item::Kind::collective:
          compute = start + duration(item, curves);
          host = launched(host, compute);
          break;
        case Item::Kind::async:
          beside[item.role] = std::max(beside[item.role], start) + duration(item, curves);
          host = launched(host, beside[item.role]);
          break;
        case Item::Kind::join:
          compute = std::max(compute, beside[item.role]);
          break;
        case Item::Kind::sync:
          host = std::max(host, compute);
          break;
        case Item::Kind::host:
          host += item.duration;
          break;
        case Item::Kind::ring:
        case Item::Kind::model:
        case Item::Kind::tile:
          break;
      }
    }
    for (const Time end : beside) {
      compute = std::max(compute, end);
    }
    return std::max(host, compute);
  }

 private:
  Time launched(Time host, Time ends) const {
    return waits_each_launch_ ? std::max(host, ends) : host;
  }

  Time duration(const Item& item, std::map<cost::CurveId, Time>& curves) const {
    const auto& entry = book_.entries(item.role)[item.price];
    const auto price = entry.price(*prices_.collectives, shapes_[item.role]);
    curves[price.latency_curve] += price.latency;
    curves[price.curve] += price.fluid;
    return price.latency + price.fluid;
  }

  const Prices& prices_;
  const PriceBook& book_;
  Time launch_{0};
  Time overhead_{0};
  bool waits_each_launch_ = false;
  std::array<GroupShape, kRoles> shapes_;
};

}  // namespace

LayerTime layer_time(const strategy::Plan& plan, const Topology& topology, const Prices& prices,
                     const hardware::Device& device, model::LayerKind kind, LayerPart part) {
  Labels labels;
  PriceBook book;
  const PassContext context{&plan,     prices.kernels.at(device.name), &labels, &book, false,
                            device.sms};
  const model::OperatorGraph whole = model::build_layer(plan.model, kind, plan.shard, plan.style);
  const model::OperatorGraph graph = part == LayerPart::experts ? experts_of(whole) : whole;
  const bool redoes = plan.recompute.whole_micro_batches == 0;
  const Passes passes = build_passes(graph, context, redoes ? redone_of(plan, graph) : Redone());
  Clock clock(plan, topology, prices, device, book);
  LayerTime out;
  out.forward = clock.run(passes.forward, out.forward_curves);
  std::vector<Item> backward;
  if (redoes && plan.recompute.kind == RecomputeKind::full) {
    backward = passes.recompute;
  }
  backward.insert(backward.end(), passes.backward.begin(), passes.backward.end());
  out.backward = clock.run(backward, out.backward_curves);
  return out;
}

}  // namespace stepcast::lower
