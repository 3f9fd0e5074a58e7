// Dispatch of tokens to experts and their return.
#include "pass_builder.h"

namespace stepcast::lower {

// Megatron's all-gather dispatcher gathers tokens before they are copied to their top-k experts.
std::int64_t PassBuilder::copies(const Operator& op) const {
  const auto& moe = plan_.job.model.moe;
  const bool gathers_first = plan_.job.moe.dispatcher == job::MoeRuntime::Dispatcher::allgather;
  if (!moe || !gathers_first || op.kind != model::OpKind::grouped_gemm) {
    return 1;
  }
  return moe->topk;
}

void PassBuilder::expert_before(std::size_t, Items&) {}
void PassBuilder::expert_after(std::size_t, Items&) {}
void PassBuilder::expert_before_backward(std::size_t, Items&) {}
void PassBuilder::expert_after_backward(std::size_t, Items&) {}

}  // namespace stepcast::lower
