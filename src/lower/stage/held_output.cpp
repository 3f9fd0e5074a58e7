// The model's result as a copy in fp32, which the training loop holds until it has the next one
// (Lightning Fabric 2.5, fabric/wrappers.py:138: convert_output), or gives up ahead of the backward
// pass, so that the loss's graph alone holds it (InternEvo 0.4.9,
// core/scheduler/no_pipeline_scheduler.py: "clear output before backward"). The model returns the
// copy, and the name that held the one before is bound to it, ahead of the loss (litgpt 0.5.0,
// finetune/lora.py:310), in the same step or in the one before: fit() is one function. Where a loop
// is a function of its own for each step, the last result goes with it (InternEvo).
#include <map>
#include <utility>

#include "../tensors/unit_tensors.h"
#include "feature_list.h"

namespace stepcast::lower {

using program::kNone;

namespace {

class HeldOutput final : public Feature {
 public:
  void make_states(Stage& stage) override;
  void before_forward(Stage& stage, int chunk, std::size_t unit) override;
  void after_forward(Stage& stage, int chunk, std::size_t unit) override;
  void after_backward(Stage& stage, int chunk, std::size_t unit) override;
  void end_of_step(Stage& stage, StepEnd part) override;

 private:
  std::map<std::pair<int, std::size_t>, TensorList> results_;  // by chunk and unit
  program::BufferIndex held_ = kNone, before_ = kNone;
  TensorList none_;
  bool stands_ = false;  // a result at all times: of the last step's, to begin with
};

bool is_held(const Stage& stage, int chunk, std::size_t unit) {
  return stage.plan.loss_form.wide_output &&
         stage.units[static_cast<std::size_t>(chunk)][unit].kind == Unit::Kind::head;
}

std::int64_t result_bytes(const Stage& stage) {
  const model::Shard& shard = stage.plan.shard;
  const std::int64_t tokens = shard.sequences * shard.sequence_length / shard.context;
  return whole_blocks(4 * static_cast<double>(tokens * stage.plan.vocab) / shard.tensor);
}

const char* const kLabel = "the model's result in fp32";

// Made with the head's pass; it goes ahead of the next one's loss.
TensorList result_of(Stage& stage, int chunk, std::size_t unit) {
  const std::int64_t bytes = result_bytes(stage);
  const Passes& passes = *stage.units[static_cast<std::size_t>(chunk)][unit].passes;
  const std::size_t loss = passes.head.loss.value_or(0);
  if (stage.plan.loss_form.kernel == LossKernel::chunk_list) {  // it begins with the cast
    return {{{Bytes(bytes), label_of(stage, kLabel), first_place(loss), last_place(loss)}}, bytes};
  }
  return {{{Bytes(bytes), label_of(stage, kLabel), 0, first_place(loss)}}, bytes};
}

// Whether there is a further result, for which this one goes within a pass.
bool another_follows(const Stage& stage, int chunk) {
  if (stage.plan.loss_form.holds_logits) {
    return true;
  }
  const auto& turns = stage.passes.turns[static_cast<std::size_t>(chunk)];
  return !stage.plan.loss_form.clears_output && turns.forwards_begun < stage.plan.micro_batches;
}

void HeldOutput::make_states(Stage& stage) {
  for (std::size_t c = 0; c < stage.units.size(); ++c) {
    const auto& units = stage.units[c];
    if (stage.plan.loss_form.holds_logits && !units.empty() &&
        is_held(stage, static_cast<int>(c), units.size() - 1)) {
      stands_ = true;
      held_ = stage.builder.persistent(result_bytes(stage), program::MemoryCategory::activations,
                                       label_of(stage, kLabel));
    }
  }
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
  if (stands_) {  // held_ is the last result or this one; what stands beside it for a while is new
    before_ = stage.builder.allocate(result, kActivations, label, false);
    if (stage.passes.turns[static_cast<std::size_t>(chunk)].forwards_begun == 1) {
      stage.builder.in_first_step(before_, none_);  // nothing is there that it stands beside
    }
    return;
  }
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
  if (part == StepEnd::clear && !stands_) {
    stage.builder.release(held_);
    held_ = kNone;
  }
}

}  // namespace

std::unique_ptr<Feature> make_held_output() { return std::make_unique<HeldOutput>(); }

}  // namespace stepcast::lower
