// Megatron-Core's token dispatcher keeps the router's probabilities, its map of tokens to experts
// and the places of rows until its next forward pass (0.16.1,
// transformer/moe/token_dispatcher.py:610, :611, :645; the all-gather's those of its own experts,
// :282 to :301). Autograd's graph hangs on the probabilities, which ends in the tensor from which a
// checkpoint ran the layer again: that stands as well, and its gradient.
#include <algorithm>

#include "../stage/feature_list.h"
#include "states.h"

namespace stepcast::lower {
namespace {

using program::BufferIndex;
using program::kNone;

class RouterGraph final : public Feature {
 public:
  void make_states(Stage& stage) override;
  void before_forward(Stage& stage, int chunk, std::size_t unit) override;
  void after_backward(Stage& stage, int chunk, std::size_t unit) override;

 private:
  std::vector<std::vector<BufferIndex>> buffers_;  // by chunk and unit
  std::vector<std::vector<bool>> live_;
};

// Experts that no rank shares are sharded as dense parameters are.
bool has_router(const Stage& stage, const Unit& unit) {
  const auto& model = stage.plan.model;
  return unit.passes->parameters.trained.expert > 0 ||
         (unit.kind == Unit::Kind::layer && unit.layer < model.layers &&
          model::layer_kind(model, unit.layer).mlp == model::LayerKind::Mlp::moe);
}

std::vector<std::int64_t> maps_of(const Stage& stage) {
  const strategy::Plan& plan = stage.plan;
  const model::ExpertRows rows = model::expert_rows(plan.model, plan.shard, plan.style.routing);
  const std::int64_t experts = plan.model.moe->experts;
  const auto element = static_cast<std::int64_t>(bytes_per_element(plan.style.dtype));
  constexpr std::int64_t kIndex = 8;
  if (plan.expert_dispatch.dispatcher == Dispatcher::allgather) {
    return {rows.gathered * (experts / plan.shard.expert), rows.computed * element,
            rows.computed * kIndex};
  }
  const std::int64_t map = rows.tokens * experts;
  return {map * element, map, rows.sent * kIndex};
}

// Whether the graph of the unit's router, or of one that runs again with it, ends in a checkpoint's
// input that is the unit's own, or its experts'.
bool holds_input(const Stage& stage, const std::vector<Unit>& units, std::size_t u) {
  if (!stage.plan.expert_dispatch.keeps_router_graph) {
    return false;
  }
  const auto& modules = stage.plan.recompute.modules;
  if (std::find(modules.begin(), modules.end(), "moe") != modules.end()) {
    return has_router(stage, units[u]);
  }
  if (!units[u].recomputed || !units[u].keeps_input) {
    return false;
  }
  bool router = has_router(stage, units[u]);
  for (++u; u < units.size() && units[u].recomputed && !units[u].keeps_input; ++u) {
    router = router || has_router(stage, units[u]);
  }
  return router;
}

void RouterGraph::make_states(Stage& stage) {
  buffers_.clear();
  live_.clear();
  for (const auto& units : stage.units) {
    std::vector<BufferIndex> of;
    for (std::size_t u = 0; u < units.size(); ++u) {
      const bool input = holds_input(stage, units, u);
      std::vector<std::int64_t> tensors;
      if (stage.plan.expert_dispatch.keeps_router_graph && has_router(stage, units[u])) {
        tensors = maps_of(stage);
      }
      if (input) {
        tensors.insert(tensors.end(), 2, units[u].passes->input);
      }
      of.push_back(tensors.empty() ? BufferIndex{kNone}
                                   : stage.builder.declare(
                                         rounded_sum(tensors), program::MemoryCategory::activations,
                                         label_of(stage, input ? "a router's input and its gradient"
                                                               : "a dispatcher's maps")));
      divide(stage, of.back(), tensors);
    }
    buffers_.push_back(std::move(of));
    live_.emplace_back(units.size(), true);  // of the step before
  }
}

void RouterGraph::before_forward(Stage& stage, int chunk, std::size_t unit) {
  const auto c = static_cast<std::size_t>(chunk);
  if (live_[c][unit]) {
    stage.builder.release(buffers_[c][unit]);
    live_[c][unit] = false;
  }
}

void RouterGraph::after_backward(Stage& stage, int chunk, std::size_t unit) {
  const auto c = static_cast<std::size_t>(chunk);
  if (!live_[c][unit] && buffers_[c][unit] != kNone) {
    stage.builder.allocate(buffers_[c][unit]);
    live_[c][unit] = true;
  }
}

}  // namespace

std::unique_ptr<Feature> make_router_graph() { return std::make_unique<RouterGraph>(); }

}  // namespace stepcast::lower
