#include "passes_loss.h"

#include <algorithm>

namespace stepcast::lower {
namespace {

using Family = job::System::Family;
using model::Operator;

constexpr std::int64_t kWide = 4;  // bytes of fp32, in which the model's eager loss stands

Bytes times(Bytes bytes, std::int64_t n) { return Bytes(bytes.count() * n); }

// Bytes of all that the loss keeps: one wide number a logit.
std::int64_t logits_of(const Operator& loss) {
  std::int64_t bytes = 0;
  for (const model::Saved& saved : loss.saved) {
    bytes += saved.bytes.count();
  }
  return bytes / kWide;
}

// Pieces arrive apart and are joined in the logits' format, then cast. Back, the gradient of the
// whole is cast before this rank's slice is taken.
void gather(Operator& loss, int tensor, std::int64_t width) {
  const std::int64_t whole = tensor * logits_of(loss);
  for (model::Saved& saved : loss.saved) {
    saved.bytes = times(saved.bytes, tensor);
  }
  loss.forward_moved = times(loss.forward_moved, tensor) + Bytes(2 * width * whole);
  loss.backward_moved = times(loss.backward_moved, tensor);
  loss.forward_temporary = times(loss.forward_temporary, tensor) + Bytes(width * whole);
  loss.backward_temporary = times(loss.backward_temporary, tensor) + Bytes(width * whole);
}

// DTensor's loss parallel (torch/distributed/tensor/parallel/loss.py): forward, the cast, the
// shifted logits and their exponentials or the result; back, zeros with the likelihood's gradient,
// exponentials and their sum beside the kept result.
void shard(Operator& loss, std::int64_t width) {
  const std::int64_t logits = logits_of(loss);
  loss.forward_temporary = Bytes(2 * kWide * logits);
  loss.backward_temporary = Bytes((3 * kWide - width) * logits);
}

// DeepSpeed's fp16 engine halves the module and runs without autocast. (Published peaks of Qwen
// grow by 5 to 8 bytes a logit under it; under bf16 by 12 to 16, as an fp32 loss has it.)
// Log-softmax and both gradients in the logits' format, beside the copy of the logits that leaves
// out the last token (transformers' shift_logits).
void narrow(Operator& loss, std::int64_t width) {
  const std::int64_t logits = logits_of(loss);
  for (model::Saved& saved : loss.saved) {
    saved.bytes = Bytes(saved.bytes.count() / kWide * width);
  }
  loss.forward_moved = Bytes(4 * width * logits);
  loss.backward_moved = Bytes(5 * width * logits);
  loss.forward_temporary = Bytes(width * logits);
  loss.backward_temporary = Bytes(width * logits);
}

}  // namespace

bool gathers_logits(const strategy::Plan& plan) {
  return plan.shard.tensor > 1 && plan.job.kernels.loss == job::LossKernel::eager &&
         plan.job.system.family == Family::megatron &&
         plan.job.parallelism.tensor_kind == job::TensorKind::one_d;
}

model::OperatorGraph with_loss(model::OperatorGraph head, const strategy::Plan& plan) {
  const auto loss =
      std::find_if(head.operators.begin(), head.operators.end(),
                   [](const Operator& op) { return op.kind == model::OpKind::cross_entropy; });
  if (loss == head.operators.end() || plan.job.kernels.loss != job::LossKernel::eager) {
    return head;
  }
  const auto width = static_cast<std::int64_t>(job::bytes_per_element(plan.style.dtype));
  if (gathers_logits(plan)) {
    gather(*loss, plan.shard.tensor, width);
  } else if (plan.shard.tensor > 1 && plan.job.system.family == Family::fsdp2) {
    shard(*loss, width);
  } else if (plan.job.system.family == Family::deepspeed &&
             plan.job.workload.precision == job::DType::fp16) {
    narrow(*loss, width);
  }
  return head;
}

}  // namespace stepcast::lower
