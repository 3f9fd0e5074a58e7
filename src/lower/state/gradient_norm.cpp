// The norm of all gradients: taken on each rank and summed over those whose gradients make one
// norm, at once or, post-validated, behind the optimizer.
#include "../offload/state_offload.h"
#include "../pipeline/pipeline.h"
#include "../stage/feature_list.h"
#include "states.h"

namespace stepcast::lower {

using program::Category;

namespace {

class GradientNorm final : public Feature {
 public:
  void make_streams(Stage& stage) override;
  void end_of_step(Stage& stage, StepEnd part) override;

 private:
  void pass_on(Stage& stage);

  program::StreamIndex norm_;  // of a norm that the step does not wait for
};

// The zero-bubble runtime does; Megatron-LM's own loops wait for the norm.
bool validates_later(const strategy::Plan& plan) {
  return plan.optimizer_step.post_validated && plan.grid.pipeline > 1 &&
         transport_of(plan) == Transport::any_order;
}

void GradientNorm::make_streams(Stage& stage) {
  if (validates_later(stage.plan)) {
    norm_ = stage.builder.stream("norm");
  }
}

// Post-validated: each stage adds its part to what the stage before it sent and passes the sum on;
// the step goes on, and is validated when the whole has come back, behind the next one's first
// passes (Qi et al., 2401.10241, section 4). Nobody waits for all, as an all-reduce would: its
// kernel would hold SMs of the first stages until the last one is done.
void GradientNorm::pass_on(Stage& stage) {
  constexpr std::uint32_t kKey = 0xfffffffeU;  // of no message between passes
  const program::LabelIndex label = label_of(stage, "gradient norm");
  const program::PriceKey price = stage.context.passes.book->message(4);
  const auto reduce = [&](Role role) {
    stage.builder.collective(norm_, role,
                             stage.context.passes.book->key(role, cost::Collective::all_reduce, 4),
                             Category::other, Category::stall, label, stage.host.launch);
  };
  stage.builder.wait(norm_, stage.builder.mark(stage.streams.compute));
  if (stage.plan.grid.tensor > 1) {
    reduce(kTensor);
  }
  if (stage.plan.shard_ranks > 1) {
    reduce(kData);
  }
  const auto exchange = [&](program::ChannelRole channel, bool send) {
    program::Task& task =
        stage.builder.exchange(norm_, {{channel, kKey, price, send}}, label, stage.host.launch);
    task.category = Category::other;
  };
  if (stage.number > 0) {
    exchange(kReceiveForward, false);
  }
  if (stage.number + 1 < stage.plan.grid.pipeline) {
    exchange(kSendForward, true);
  }
}

void GradientNorm::end_of_step(Stage& stage, StepEnd part) {
  if (part != StepEnd::norm) {
    return;
  }
  // FSDP's norm of gradients on the host is the CPU's (host_step.cpp); DeepSpeed's is taken as
  // they leave.
  const bool there = stage.plan.optimizer_step.norm_on_host;
  const double here = there ? 1 - stage.plan.offload.gradients.share() : 1;
  // Gradients are read; where they are widened, fp32 copies are written and read beside that.
  const double read =
      width(stage.plan.precision.gradients) + (stage.plan.optimizer_step.norm_widens ? 4 + 4 : 0);
  memory_kernel(stage, stepped_elements(stage) * here * read, cost::MemoryOp::optimizer,
                Category::optimizer, "gradient norm");
  const bool later = validates_later(stage.plan);
  if (later) {
    pass_on(stage);
  } else if (stage.plan.grid.ranks() > 1) {
    // All ranks meet: those of other stages, or of this one where there is no other.
    const bool stages = stage.plan.grid.pipeline > 1;
    stage.builder.collective(stage.streams.compute, kNorm,
                             stage.context.passes.book->key(kNorm, cost::Collective::all_reduce, 4),
                             Category::other, stages ? Category::bubble : Category::stall,
                             label_of(stage, "gradient norm all_reduce"), stage.host.launch);
  }
  if (stage.plan.optimizer_step.host_waits && !later) {
    stage.builder.host_sync(stage.builder.mark(stage.streams.compute));
  } else if (!later && !stage.plan.optimizer_step.compiled) {
    // A host that does not read the norm has gradients multiplied whatever it is (torch 2.15,
    // nn/utils/clip_grad.py, _clip_grads_with_norm_); one that does seldom needs to. Compiled
    // whole, a step multiplies where the optimizer reads.
    // Kernels over lists of tensors, as the optimizer's, at whose rate they were measured: fp32
    // gradients within 2 % with the norm, those of 16 bits 15 to 25 % too fast.
    memory_kernel(stage, 2 * width(stage.plan.precision.gradients) * stepped_elements(stage) * here,
                  cost::MemoryOp::optimizer, Category::optimizer, "clip gradients");
  }
}

}  // namespace

std::unique_ptr<Feature> make_gradient_norm() { return std::make_unique<GradientNorm>(); }

}  // namespace stepcast::lower
