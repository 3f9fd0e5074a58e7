// The model's result as a copy in fp32, which the training loop holds until it has the next one
// (Lightning Fabric 2.5, fabric/wrappers.py:138: convert_output), or gives up ahead of the backward
// pass, so that the loss's graph alone holds it (InternEvo 0.4.9,
// core/scheduler/no_pipeline_scheduler.py: "clear output before backward"). The model returns the
// copy, and the name that held the one before is bound to it, ahead of the loss (litgpt 0.5.0,
// finetune/lora.py:310).
#include <map>
#include <utility>

#include "../tensors/unit_tensors.h"
#include "feature_list.h"

namespace stepcast::lower {

using program::kNone;

namespace {

class HeldOutput final : public Feature {
 public:
  void before_forward(Stage& stage, int chunk, std::size_t unit) override;
  void after_forward(Stage& stage, int chunk, std::size_t unit) override;
  void after_backward(Stage& stage, int chunk, std::size_t unit) override;
  void end_of_step(Stage& stage, StepEnd part) override;

 private:
  std::map<std::pair<int, std::size_t>, TensorList> results_;  // by chunk and unit
  program::BufferIndex held_ = kNone, before_ = kNone;
};

bool is_held(const Stage& stage, int chunk, std::size_t unit) {
  return stage.plan.loss_form.wide_output &&
         stage.units[static_cast<std::size_t>(chunk)][unit].kind == Unit::Kind::head;
}

// Made with the head's pass; it goes ahead of the next one's loss.
TensorList result_of(Stage& stage, int chunk, std::size_t unit) {
  const model::Shard& shard = stage.plan.shard;
  const std::int64_t tokens = shard.sequences * shard.sequence_length / shard.context;
  const auto logits = static_cast<double>(tokens * stage.plan.vocab) / shard.tensor;
  const std::int64_t bytes = whole_blocks(4 * logits);
  const Passes& passes = *stage.units[static_cast<std::size_t>(chunk)][unit].passes;
  const std::uint16_t loss = first_place(passes.head.loss.value_or(0));
  return {{{Bytes(bytes), label_of(stage, "the model's result in fp32"), 0, loss}}, bytes};
}

// Whether the step has a further result, for which this one goes within a pass.
bool another_follows(const Stage& stage, int chunk) {
  const auto& turns = stage.passes.turns[static_cast<std::size_t>(chunk)];
  return !stage.plan.loss_form.clears_output && turns.forwards_begun < stage.plan.micro_batches;
}

void HeldOutput::before_forward(Stage& stage, int chunk, std::size_t unit) {
  if (!is_held(stage, chunk, unit)) {
    return;
  }
  auto known = results_.find({chunk, unit});
  if (known == results_.end()) {
    known = results_.emplace(std::pair(chunk, unit), result_of(stage, chunk, unit)).first;
  }
  const TensorList& result = known->second;
  const program::LabelIndex label = result.blocks.front().label;
  constexpr auto kActivations = program::MemoryCategory::activations;
  before_ = held_;
  held_ = another_follows(stage, chunk) ? stage.builder.allocate(result, kActivations, label, false)
                                        : stage.builder.allocate(result.bytes, kActivations, label);
}

void HeldOutput::after_forward(Stage& stage, int chunk, std::size_t unit) {
  if (is_held(stage, chunk, unit)) {
    stage.builder.release(before_);
    before_ = kNone;
  }
}

void HeldOutput::after_backward(Stage& stage, int chunk, std::size_t unit) {
  if (is_held(stage, chunk, unit) && stage.plan.loss_form.clears_output) {
    stage.builder.release(held_);
    held_ = kNone;
  }
}

void HeldOutput::end_of_step(Stage& stage, StepEnd part) {
  if (part == StepEnd::clear) {
    stage.builder.release(held_);
    held_ = kNone;
  }
}

}  // namespace

std::unique_ptr<Feature> make_held_output() { return std::make_unique<HeldOutput>(); }

}  // namespace stepcast::lower
