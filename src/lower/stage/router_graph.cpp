// Megatron-Core's token dispatcher keeps the router's probabilities until its next forward pass
// (0.16.1, transformer/moe/token_dispatcher.py:610). Autograd's graph hangs on them, which ends in
// the tensor from which a checkpoint ran the layer again: that stands as well, and its gradient.
#include <algorithm>

#include "feature_list.h"

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

bool has_router(const Unit& unit) { return unit.passes->parameters.trained.expert > 0; }

// Whether the graph of the unit's router, or of one that runs again with it, ends in a checkpoint's
// input that is the unit's own, or its experts'.
bool holds_input(const Stage& stage, const std::vector<Unit>& units, std::size_t u) {
  if (!stage.plan.expert_dispatch.keeps_router_graph) {
    return false;
  }
  const auto& modules = stage.plan.recompute.modules;
  if (std::find(modules.begin(), modules.end(), "moe") != modules.end()) {
    return has_router(units[u]);
  }
  if (!units[u].recomputed || !units[u].keeps_input) {
    return false;
  }
  bool router = has_router(units[u]);
  for (++u; u < units.size() && units[u].recomputed && !units[u].keeps_input; ++u) {
    router = router || has_router(units[u]);
  }
  return router;
}

void RouterGraph::make_states(Stage& stage) {
  buffers_.clear();
  live_.clear();
  for (const auto& units : stage.units) {
    std::vector<BufferIndex> of;
    for (std::size_t u = 0; u < units.size(); ++u) {
      of.push_back(
          holds_input(stage, units, u)
              ? stage.builder.declare(2 * whole_blocks(static_cast<double>(units[u].passes->input)),
                                      program::MemoryCategory::activations,
                                      label_of(stage, "a router's input and its gradient"))
              : BufferIndex{kNone});
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
