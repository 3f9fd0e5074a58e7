// The optimizer on the device: gradients as it reads them, its update, and what it gives up.
#include <algorithm>

#include "../offload/state_offload.h"
#include "../stage/feature_list.h"
#include "states.h"
#include "stepcast/base/checked_time.h"

namespace stepcast::lower {

using program::Category;
using program::kNone;
using program::MemoryCategory;

namespace {

class OptimizerOnDevice final : public Feature {
 public:
  void make_states(Stage& stage) override;
  void end_of_step(Stage& stage, StepEnd part) override;

 private:
  void prepare(Stage& stage);
  void update(Stage& stage);
  void clear(Stage& stage);
  void add_temporaries(Stage& stage, const std::vector<std::int64_t>& list);
  program::BufferIndex temporaries_of(Stage& stage, std::size_t optimizer);

  std::vector<TensorList> temporaries_;          // of operations over all tensors of an optimizer
  program::BufferIndex main_gradients_ = kNone;  // its fp32 copy of 16-bit gradients
};

// Elements that this rank steps on the device.
double stepped_here(const Stage& stage) {
  return stepped_elements(stage) * (1 - share_on_host(stage));
}

// A buffer for the device's share of the step.
program::BufferIndex within(Stage& stage, std::int64_t bytes, const char* text) {
  const double here = 1 - share_on_host(stage);
  return stage.builder.allocate(whole_blocks(here * static_cast<double>(bytes)),
                                MemoryCategory::optimizer, label_of(stage, text));
}

// Gradients that the backward pass made.
void give_up_gradients(Stage& stage) {
  for (const program::BufferIndex buffer : stage.gradients.buffers) {
    stage.builder.release(buffer);
  }
  stage.gradients.buffers.clear();
}

StepCost cost_of_step(const Stage& stage) {
  return step_cost(stage.plan, shares(stage), stage_arrays(stage));
}

void OptimizerOnDevice::make_states(Stage& stage) {
  const auto& types = stage.plan.precision;
  if (types.master && bytes_per_element(types.gradients) < 4 &&
      stage.plan.optimizer_step.widens_gradients) {
    // Megatron's stand until the next step sets them to none (20 bytes a parameter in fp16, 4 +
    // 16/d sharded: dist_optimizer.md); DeepSpeed's for the optimizer step only.
    std::vector<std::int64_t> tensors =
        state_tensors(stage.plan, shares(stage), stage_arrays(stage)).wide_gradients;
    const double here = 1 - share_on_host(stage);
    for (std::int64_t& bytes : tensors) {
      bytes = static_cast<std::int64_t>(here * static_cast<double>(bytes));
    }
    main_gradients_ = stage.builder.declare(rounded_sum(tensors), MemoryCategory::gradients,
                                            label_of(stage, "fp32 gradients"));
    divide(stage, main_gradients_, tensors);
    if (stage.plan.optimizer_step.fp32_gradients_stand) {
      stage.builder.release(main_gradients_);
    }
  }
}

// Muon's updates: momentum matrices made orthogonal, whole where shards of them arrive first.
// Tensor ranks each take their own part (Megatron-LM's --muon-tp-mode blockwise).
void orthogonalise(Stage& stage, const StepCost& step) {
  if (step.gathered > 0) {
    data_collective(stage, stage.streams.compute, kData, cost::Collective::all_gather,
                    step.gathered, "matrices of updates");
  }
  const DType wide = DType::tf32;  // fp32 operands at --muon-fp32-matmul-prec medium
  const bool rounds = stage.plan.optimizer_step.orthogonalises_in_fp32 &&
                      hardware::peak_of(*stage.context.device, wide).count() > 0;
  const DType type = rounds ? wide : stage.plan.style.dtype;
  for (const Orthogonal& o : step.orthogonal) {
    const auto price = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
      return stage.context.passes.kernels->gemm({.shape = {m, n, k}, .dtype = type});
    };
    const cost::Priced last = price(o.m, o.n, o.m);
    const Time once =
        checked_sum(price(o.m, o.m, o.n).time, checked_sum(price(o.m, o.m, o.m).time, last.time));
    constexpr int kAround = 6;  // momentum, norm, division, scale, decay, update
    stage.builder.kernel(
        stage.streams.compute, checked_product(kNewtonSchulzSteps * o.count, once), last.curve,
        Category::optimizer, label_of(stage, "orthogonal updates"),
        checked_product(o.count * (3 * kNewtonSchulzSteps + kAround), stage.host.launch),
        kArithmeticBound);
  }
}

void OptimizerOnDevice::prepare(Stage& stage) {
  const auto& types = stage.plan.precision;
  const double count = stepped_here(stage);
  const double gradient = width(types.gradients);
  const StepCost step = cost_of_step(stage);
  stage.builder.release(within(stage, step.norm_temporary, "gradient in fp64"));
  std::vector<program::BufferIndex> copies;
  for (const std::int64_t bytes : step.norm_copies) {
    copies.push_back(within(stage, bytes, "gradients in fp32 for the norm"));
  }
  for (const program::BufferIndex copy : copies) {
    stage.builder.release(copy);
  }
  const program::BufferIndex flat = within(stage, step.flat_gradients, "flat gradients");
  if (stage.plan.optimizer_step.gives_up_narrow) {
    give_up_gradients(stage);
  }
  stage.builder.allocate(main_gradients_);
  if (types.master && gradient < 4 && stage.plan.optimizer_step.widens_gradients) {
    // They become fp32 main gradients (Megatron-LM: _copy_model_grads_to_main_grads).
    memory_kernel(stage, count * (gradient + 4), cost::MemoryOp::optimizer, Category::optimizer,
                  "main gradients");
  }
  if (stage.plan.precision.loss_scaling) {  // loss scaling: unscaled and checked
    memory_kernel(stage, count * 8, cost::MemoryOp::optimizer, Category::optimizer,
                  "unscale gradients");
  }
  stage.builder.release(flat);
  if (stage.plan.optimizer_step.copies_partition) {
    give_up_gradients(stage);
  }
}

// The device's share of each.
void OptimizerOnDevice::add_temporaries(Stage& stage, const std::vector<std::int64_t>& list) {
  const double here = 1 - share_on_host(stage);
  TensorList out;
  for (const std::int64_t bytes : list) {
    const auto block = static_cast<std::int64_t>(here * static_cast<double>(bytes));
    if (block > 0) {
      out.blocks.push_back({Bytes(block), label_of(stage, "optimizer temporaries"), 0, 0xffff});
      out.bytes += whole_blocks(static_cast<double>(block));
    }
  }
  if (!out.blocks.empty()) {
    temporaries_.push_back(std::move(out));
  }
}

program::BufferIndex OptimizerOnDevice::temporaries_of(Stage& stage, std::size_t optimizer) {
  return stage.builder.allocate(temporaries_[optimizer], MemoryCategory::optimizer,
                                label_of(stage, "optimizer temporaries"), false);
}

void OptimizerOnDevice::update(Stage& stage) {
  const StepCost step = cost_of_step(stage);
  const double here = 1 - share_on_host(stage);
  stage.builder.program.lazy_from = stage.builder.moves;
  for (const std::vector<std::int64_t>& list : step.temporaries) {
    add_temporaries(stage, list);
  }
  for (std::size_t i = 0; i + 1 < temporaries_.size(); ++i) {
    stage.builder.release(temporaries_of(stage, i));
  }
  const program::BufferIndex temporary =
      temporaries_.empty() ? within(stage, step.temporary, "optimizer temporaries")
                           : temporaries_of(stage, temporaries_.size() - 1);
  orthogonalise(stage, step);
  memory_kernel(stage, here * step.moved, cost::MemoryOp::optimizer, Category::optimizer,
                "optimizer", step.launches);
  stage.builder.release(temporary);
}

void OptimizerOnDevice::clear(Stage& stage) {
  if (stage.plan.optimizer_step.zeroes_gradients) {
    memory_kernel(stage, static_cast<double>(stage.gradients.held), cost::MemoryOp::copy,
                  Category::optimizer, "zero gradients");
  }
  give_up_gradients(stage);
}

void OptimizerOnDevice::end_of_step(Stage& stage, StepEnd part) {
  switch (part) {
    case StepEnd::prepare:
      prepare(stage);
      break;
    case StepEnd::update:
      update(stage);
      break;
    case StepEnd::updated:
      if (!stage.plan.optimizer_step.fp32_gradients_stand) {
        stage.builder.release(main_gradients_);
      }
      break;
    case StepEnd::clear:
      clear(stage);
      break;
    default:
      break;
  }
}

}  // namespace

std::unique_ptr<Feature> make_optimizer() { return std::make_unique<OptimizerOnDevice>(); }

}  // namespace stepcast::lower
