// One unit alone on one rank, as closed forms add it up.
#include <algorithm>
#include <map>

#include "../passes/passes.h"
#include "../passes/passes_loss.h"
#include "stepcast/lower/lower.h"
#include "unit_clock.h"

namespace stepcast::lower {

using cluster::Topology;

const UnitTime& UnitTimes::layer(const model::LayerKind& kind) const {
  const auto found = std::find_if(layers.begin(), layers.end(),
                                  [&](const auto& one) { return one.first == kind; });
  STEPCAST_CHECK(found != layers.end(), "a kind of layer that the model does not have");
  return found->second;
}

double recomputed_flops(const strategy::Plan& plan) {
  const auto& recompute = plan.recompute;
  struct Again {
    double flops = 0;           // of one layer on one tensor rank
    bool by_operators = false;  // some of its operators run again, and not whole layers
  };
  std::map<model::LayerKind, Again> layers;
  double sum = 0;
  for (const auto& chunks : plan.stages) {
    for (const auto& chunk : chunks) {
      for (int n = 0; n < chunk.layers; ++n) {
        const int layer = chunk.first_layer + n;
        const model::LayerKind kind = model::layer_kind(plan.model, layer);
        const auto [at, fresh] = layers.try_emplace(kind);
        if (fresh) {
          const auto graph = model::build_layer(plan.model, kind, plan.shard, plan.style);
          const Redone redone = redone_of(plan, graph);
          for (std::size_t i = 0; i < graph.operators.size(); ++i) {
            const double share = redone.empty() && redoes_units(recompute)
                                     ? (i < operators_again(recompute, graph) ? 1 : 0)
                                 : runs_again(redone, i) ? redone[i].share
                                                         : 0;
            at->second.flops += share * graph.operators[i].forward.count();
          }
          at->second.by_operators = !redone.empty();
        }
        const bool again =
            at->second.by_operators || !redoes_units(recompute) ||
            (recompute.kind != RecomputeKind::optimal &&
             layer_again(recompute.kind, recompute.layers, n, chunk.ahead + n).again);
        sum += again ? at->second.flops : 0;
      }
    }
  }
  return sum * plan.shard.tensor * plan.shard.context *
         static_cast<double>(plan.all_micro_batches());
}

UnitTimes unit_times(const strategy::Plan& plan, const Topology& topology, const Prices& prices,
                     const hardware::Device& device) {
  Labels labels;
  PriceBook book;
  const PassContext context{&plan,     prices.kernels.at(device.name), &labels, &book, false,
                            device.sms};
  Spent spent;
  Time host{0};
  Time issue{0};
  const FirstRank messages(plan, topology, prices, book);
  const UnitClock clock(plan, *context.kernels, device, messages);
  // The device's time with a host that is far ahead, and the host's with a device that is.
  auto time = [&](const std::vector<Item>& items) {
    Spent unused;
    issue += clock.issue(items);
    host += std::max(Time{0}, clock.run(items, {kLongAgo, Time{0}}, unused).host);
    return std::max(Time{0}, clock.run(items, {Time{0}, kLongAgo}, spent).compute);
  };
  auto unit = [&](const model::OperatorGraph& graph, bool layer) {
    const Redone redone = layer ? redone_of(plan, graph) : Redone();
    // Where some micro-batches keep all, a bound's time counts every one as such.
    const bool redoes = plan.recompute.whole_micro_batches == 0;
    const Passes passes = build_passes(graph, context, redoes ? redone : Redone());
    spent = {};
    host = issue = Time{0};
    UnitTime out;
    out.forward = time(passes.forward);
    out.backward = time(passes.backward);
    out.kernels = spent.kernels;
    out.host = host;
    out.issue = issue;
    out.expert = spent.moved[kExpert];
    if (layer && redoes) {
      out.again = time(passes.recompute);
      out.again_kernels = spent.kernels - out.kernels;
      out.again_host = host - out.host;
      out.again_issue = issue - out.issue;
      out.again_expert = spent.moved[kExpert] - out.expert;
    }
    for (const Item& item : passes.weight_grad) {
      out.weight_grad += item.kind == Item::Kind::kernel ? item.duration : Time{0};
    }
    out.parameters = passes.parameters.trained.dense;
    out.expert_parameters = passes.parameters.trained.expert;
    out.kept = redoes ? passes.memory.saved.bytes
                      : build_passes(graph, context, redone).memory.saved.bytes;
    out.input = passes.input;
    const UnitMemory& memory = passes.memory;
    out.forward_temporaries = memory.forward.bytes;
    out.backward_temporaries = memory.backward.bytes;
    out.unkept = memory.unkept.bytes;
    out.remade = memory.again.saved.bytes + memory.again.backward.bytes;
    out.curves = std::move(spent.curves);
    return out;
  };
  const auto& model = plan.model;
  UnitTimes out;
  out.embedding = unit(model::build_embedding(model, plan.shard, plan.style), false);
  out.head = unit(with_loss(model::build_head(model, plan.shard, plan.style), plan), false);
  if (plan.accumulation.deferred_heads > 0) {  // which may run where the last stage waits
    out.head.backward -= out.head.weight_grad;
    out.head.kernels -= out.head.weight_grad;
  }
  for (const model::LayerKind of : model::layer_kinds(model)) {
    out.layers.push_back({of, unit(model::build_layer(model, of, plan.shard, plan.style), true)});
  }
  return out;
}

}  // namespace stepcast::lower
