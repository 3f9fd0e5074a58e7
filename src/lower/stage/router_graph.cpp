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

// The unit's router runs from a checkpoint's input: the unit's own, or its experts'.
bool runs_again(const Stage& stage, const Unit& unit) {
  const auto& modules = stage.plan.recompute.modules;
  const bool experts = std::find(modules.begin(), modules.end(), "moe") != modules.end();
  return stage.plan.expert_dispatch.keeps_router_graph &&
         unit.passes->parameters.trained.expert > 0 && (experts || unit.recomputed);
}

void RouterGraph::make_states(Stage& stage) {
  buffers_.clear();
  live_.clear();
  for (const auto& units : stage.units) {
    std::vector<BufferIndex> of;
    for (const Unit& unit : units) {
      of.push_back(
          runs_again(stage, unit)
              ? stage.builder.declare(2 * whole_blocks(static_cast<double>(unit.passes->input)),
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
