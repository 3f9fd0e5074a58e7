// An order played on the kernels' own times.
#include "play_order.h"

#include "../tensors/redone.h"

namespace stepcast::lower {

OrderTimes play_order(const PassContext& context, const ModelUnits& units) {
  const strategy::Plan& plan = *context.plan;
  struct Sums {
    double forward = 0, input_grad = 0, weight_grad = 0;
  };
  const bool again = redoes_units(plan.recompute);
  const auto sums = [&](const model::OperatorGraph& graph, bool layer) {
    const auto total = [](const std::vector<Item>& items) {
      double sum = 0;
      for (const Item& item : items) {
        sum += item.kind == Item::Kind::kernel ? static_cast<double>(item.duration.count()) : 0;
      }
      return sum;
    };
    const Passes passes = build_passes(graph, context, layer ? redone_of(plan, graph) : Redone());
    return Sums{total(passes.forward),
                total(passes.input_grad) + (layer && again ? total(passes.recompute) : 0),
                total(passes.weight_grad)};
  };
  std::map<model::LayerKind, Sums> layers;
  for (const auto& [kind, graph] : *units.layers) {
    layers[kind] = sums(graph, true);
  }
  const Sums embedding = sums(*units.embedding, false);
  const Sums head = sums(*units.head, false);
  const bool split = plan.order.barriers > 0;
  std::vector<std::vector<Sums>> chunks(plan.stages.size());
  for (std::size_t r = 0; r < plan.stages.size(); ++r) {
    for (const strategy::Chunk& chunk : plan.stages[r]) {
      Sums s;
      const auto add = [&](const Sums& more) {
        s.forward += more.forward;
        s.input_grad += more.input_grad;
        s.weight_grad += more.weight_grad;
      };
      for (int n = 0; n < chunk.layers; ++n) {
        add(layers.at(model::layer_kind(plan.model, chunk.first_layer + n)));
      }
      if (chunk.embedding && !split) {
        add(embedding);
      }
      if (chunk.head && !split) {
        add(head);
      }
      chunks[r].push_back(s);
    }
  }
  const double rows = 1.0 / plan.grid.pipeline;
  return order_times(plan, [&](int rank, int chunk, schedule::Pass pass) {
    const Sums& s = chunks[rank][chunk];
    const bool early = plan.order.barriers == 1;  // the output layer's input gradient is in S
    switch (pass) {
      case schedule::Pass::forward:
        return s.forward;
      case schedule::Pass::input_grad:
        return s.input_grad;
      case schedule::Pass::weight_grad:
        return s.weight_grad;
      case schedule::Pass::backward:
        return s.input_grad + s.weight_grad;
      case schedule::Pass::vocabulary:
        return rows * (head.forward + (early ? head.input_grad : 0));
      case schedule::Pass::vocabulary_grad:
        return rows * (head.weight_grad + (early ? 0 : head.input_grad));
    }
    return 0.0;
  });
}

}  // namespace stepcast::lower
