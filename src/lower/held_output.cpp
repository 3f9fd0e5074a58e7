// The model's result as a copy in fp32, which the training loop holds until it has the next one
// (Lightning Fabric 2.5, fabric/wrappers.py:138: convert_output), or gives up ahead of the backward
// pass, so that the loss's graph alone holds it (InternEvo 0.4.9,
// core/scheduler/no_pipeline_scheduler.py: "clear output before backward").
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
  program::BufferIndex held_ = kNone, before_ = kNone;
};

bool is_held(const Stage& stage, int chunk, std::size_t unit) {
  return stage.plan.loss_form.wide_output &&
         stage.units[static_cast<std::size_t>(chunk)][unit].kind == Unit::Kind::head;
}

void HeldOutput::before_forward(Stage& stage, int chunk, std::size_t unit) {
  if (is_held(stage, chunk, unit)) {
    const model::Shard& shard = stage.plan.shard;
    const std::int64_t tokens = shard.sequences * shard.sequence_length / shard.context;
    const auto logits = static_cast<double>(tokens * stage.plan.vocab) / shard.tensor;
    before_ = held_;
    held_ = stage.builder.allocate(round_512(4 * logits), program::MemoryCategory::activations,
                                   label_of(stage, "the model's result in fp32"));
  }
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
