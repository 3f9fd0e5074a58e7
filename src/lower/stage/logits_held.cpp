// What a training loop does with a micro-batch's logits behind its backward pass. Composer holds
// the model's result until the next micro-batch has its own (mosaicml 0.32.1,
// trainer/trainer.py:2927, state.outputs), from step to step, and computes the metrics of the
// training batch from it (:3006, _eval_train_metrics).
#include "feature_list.h"

namespace stepcast::lower {

using program::kNone;
using program::MemoryCategory;

namespace {

class LogitsHeld final : public Feature {
 public:
  void make_units(Stage& stage) override;
  void make_states(Stage& stage) override;
  void after_forward(Stage& stage, int chunk, std::size_t unit) override;
  void before_backward(Stage& stage, int chunk, std::size_t unit) override;
  void backward_ended(Stage& stage, int chunk) override;

 private:
  const Passes* metrics_ = nullptr;
  int chunk_ = -1;                         // of the head; -1: there is none on this stage
  program::BufferIndex standing_ = kNone;  // from one step to the next
  program::BufferIndex within_step_ = kNone;
};

bool is_head(const Stage& stage, int chunk, std::size_t unit) {
  return stage.units[static_cast<std::size_t>(chunk)][unit].kind == Unit::Kind::head;
}

std::int64_t logit_bytes(const Stage& stage) {
  const model::Shard& shard = stage.plan.shard;
  const std::int64_t tokens = shard.sequences * shard.sequence_length / shard.context;
  return whole_blocks(static_cast<double>(tokens * stage.plan.vocab) / shard.tensor *
                      bytes_per_element(stage.plan.style.dtype));
}

void LogitsHeld::make_units(Stage& stage) {
  const model::Style& style = stage.plan.style;
  for (std::size_t c = 0; c < stage.units.size(); ++c) {
    const auto& units = stage.units[c];
    if (!units.empty() && units.back().kind == Unit::Kind::head) {
      chunk_ = static_cast<int>(c);
    }
  }
  if (chunk_ >= 0 && style.loss_metrics > 0 && !style.metrics_before_backward) {
    metrics_ =
        &add_passes(stage, model::build_metrics(stage.plan.model, stage.plan.shard, style), {});
  }
}

void LogitsHeld::make_states(Stage& stage) {
  if (chunk_ >= 0 && stage.plan.loss_form.holds_logits && !stage.plan.loss_form.wide_output) {
    standing_ = stage.builder.declare(logit_bytes(stage), MemoryCategory::activations,
                                      label_of(stage, "logits of the last micro-batch"));
  }
}

void LogitsHeld::after_forward(Stage& stage, int chunk, std::size_t unit) {
  if (standing_ == kNone || !is_head(stage, chunk, unit)) {
    return;
  }
  if (stage.passes.turns[static_cast<std::size_t>(chunk)].forwards_begun == 1) {
    stage.builder.release(standing_);
  } else {
    stage.builder.release(within_step_);
    within_step_ = kNone;
  }
}

// The gradient takes the place of the logits, which are held beside it from here.
void LogitsHeld::before_backward(Stage& stage, int chunk, std::size_t unit) {
  if (standing_ == kNone || !is_head(stage, chunk, unit)) {
    return;
  }
  const Turns& turns = stage.passes.turns[static_cast<std::size_t>(chunk)];
  if (turns.backwards_ended + 1 == turns.backwards) {
    stage.builder.allocate(standing_);
  } else if (within_step_ == kNone) {
    within_step_ = stage.builder.allocate(logit_bytes(stage), MemoryCategory::activations,
                                          label_of(stage, "logits of the last micro-batch"));
  }
}

void LogitsHeld::backward_ended(Stage& stage, int chunk) {
  if (metrics_ == nullptr || chunk != chunk_) {
    return;
  }
  const program::BufferIndex temporary =
      stage.builder.allocate(metrics_->memory.forward, MemoryCategory::activations,
                             label_of(stage, "forward temporaries"), true);
  replay(stage, metrics_->forward);
  stage.builder.release(temporary);
}

}  // namespace

std::unique_ptr<Feature> make_logits_held() { return std::make_unique<LogitsHeld>(); }

}  // namespace stepcast::lower
