// Gradients of whole weights that each step makes anew: each behind the operator that uses the
// weight, beside the pass's other tensors. What a step's first pass makes is kept, what later ones
// make is added to it and given up (torch 2.15, csrc/autograd/functions/accumulate_grad.h). Where
// gradients are views of buckets, the pass that reduces them copies each there and gives it up
// (csrc/distributed/c10d/reducer.cpp: mark_variable_ready_dense); a pass before it keeps them.
#include <map>
#include <utility>

#include "../stage/feature_list.h"
#include "../tensors/unit_tensors.h"
#include "buckets.h"
#include "table_gradients.h"

namespace stepcast::lower {
namespace {

using program::BufferIndex;
using program::kNone;

class MadeGradients final : public Feature {
 public:
  void before_weight_gradients(Stage& stage, int chunk, std::size_t unit) override;
  void after_backward(Stage& stage, int chunk, std::size_t unit) override;

 private:
  const TensorList& passing(const TensorList& made);

  std::map<const TensorList*, TensorList> passing_;          // each given up by its hook
  std::map<std::pair<int, std::size_t>, BufferIndex> held_;  // until a pass that reduces
  BufferIndex of_pass_ = kNone;
};

const TensorList& MadeGradients::passing(const TensorList& made) {
  const auto [at, fresh] = passing_.try_emplace(&made, made);
  if (fresh) {
    for (program::Block& block : at->second.blocks) {
      block.end = hook(block);
    }
  }
  return at->second;
}

void MadeGradients::before_weight_gradients(Stage& stage, int chunk, std::size_t unit) {
  const TensorList& made = stage.units[chunk][unit].passes->memory.gradients;
  if (!made_by_operators(stage.plan) || made.blocks.empty()) {
    return;
  }
  const auto make = [&](const TensorList& list) {
    return stage.builder.allocate(list, program::MemoryCategory::gradients,
                                  label_of(stage, "gradients"), false);
  };
  const bool first = stage.passes.turns[chunk].backwards_ended == 0;
  const bool viewed = stage.plan.gradient_sync.live_in_buckets && travels(stage);
  const TableGradients& table = stage.gradients.tables[static_cast<std::size_t>(chunk)];
  if (first && viewed && !reduces(stage, chunk)) {
    held_[{chunk, unit}] = make(passing(made));
  } else if (unit == 0 && !table.added.blocks.empty() && keeps_projection(stage, chunk)) {
    of_pass_ = make(table.added);
    if (!table.beside.blocks.empty()) {
      stage.gradients.buffers.push_back(make(table.beside));
    }
  } else if (first && !viewed) {
    stage.gradients.buffers.push_back(make(made));
  } else {
    of_pass_ = make(passing(made));
  }
}

void MadeGradients::after_backward(Stage& stage, int chunk, std::size_t unit) {
  stage.builder.release(of_pass_);
  of_pass_ = kNone;
  const auto held = held_.find({chunk, unit});
  if (held != held_.end() && reduces(stage, chunk)) {
    stage.builder.release(held->second);
    held_.erase(held);
  }
}

}  // namespace

std::unique_ptr<Feature> make_made_gradients() { return std::make_unique<MadeGradients>(); }

}  // namespace stepcast::lower
