#include <algorithm>
#include <set>

#include "passes_tensor.h"
#include "passes_tensor_grid.h"

namespace stepcast::lower {
namespace {

using model::Operator;
using model::TensorRole;

// Column operators that gather their input: each distinct tensor once in a region, which a row
// operator closes. (MLA's two up-projections read two latents; three linears of one input share its
// gather.)
std::vector<bool> opening_operators(const model::OperatorGraph& graph) {
  std::vector<bool> out(graph.operators.size(), false);
  std::set<std::uint32_t> gathered;
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    const Operator& op = graph.operators[i];
    if (op.tensor == TensorRole::column || op.tensor == TensorRole::vocab_head) {
      const auto input = std::find_if(op.saved.begin(), op.saved.end(),
                                      [](const model::Saved& s) { return s.name == "input"; });
      out[i] = input == op.saved.end() ? gathered.empty() : gathered.insert(input->storage).second;
    } else if (op.tensor == TensorRole::row) {
      gathered.clear();
    }
  }
  return out;
}

bool cut_in_chunks(const TensorCut& cut, const Operator& op) {
  return cut.ranks > 1 && cut.sequence_parallel && op.kind == model::OpKind::gemm &&
         (op.tensor == TensorRole::column || op.tensor == TensorRole::row) &&
         (cut.overlap == TensorOverlap::ring || cut.overlap == TensorOverlap::async);
}

}  // namespace

TensorCut tensor_cut(const PassState& state) {
  const strategy::Plan& plan = state.plan;
  const job::System& system = plan.job.system;
  TensorCut out;
  out.ranks = on_grid(plan) ? 1 : plan.shard.tensor;
  out.sequence_parallel = plan.shard.sequence_parallel;
  // torch/distributed/tensor: autograd saves local tensors as they are.
  out.keeps_gathered =
      out.ranks > 1 && out.sequence_parallel && system.family == job::System::Family::fsdp2;
  // Userbuffers carry no NVFP4 (Megatron-Bridge's recipes switch tp_comm_overlap off there).
  const bool carried = state.operands != DType::nvfp4 || !system.transformer_engine;
  out.overlap = carried ? plan.job.parallelism.overlap.tensor : TensorOverlap::none;
  out.asynchronous = system.async_tensor_backward || out.overlap != TensorOverlap::none;
  out.opens = opening_operators(state.graph);
  return out;
}

bool chunked_gather(const TensorCut& cut, const PassState& state, std::size_t i,
                    cost::Layout layout) {
  const Operator& op = state.graph.operators[i];
  return cut_in_chunks(cut, op) &&
         ((layout == cost::Layout::forward && op.tensor == TensorRole::column && cut.opens[i]) ||
          (layout == cost::Layout::input_grad && op.tensor == TensorRole::row));
}

bool chunked_scatter(const TensorCut& cut, const PassState& state, std::size_t i,
                     cost::Layout layout) {
  const Operator& op = state.graph.operators[i];
  const bool pipelined = cut.overlap == TensorOverlap::async;
  return cut_in_chunks(cut, op) &&
         ((layout == cost::Layout::forward && op.tensor == TensorRole::row) ||
          (layout == cost::Layout::input_grad && op.tensor == TensorRole::column && cut.opens[i] &&
           pipelined));
}

void copy_sequence(const TensorCut& cut, PassState& state, std::int64_t bytes,
                   const std::string& label) {
  if (!cut.keeps_gathered) {
    return;
  }
  memory_kernel(state, cost::MemoryOp::copy, 2 * bytes, label + " sequence copy");
  state.out->back().category = program::Category::compute;  // also where forward runs again
}

std::int64_t kept_scattered_result(const PassState& state, const Operator& op) {
  const model::Shard& shard = state.plan.shard;
  const bool scatters = shard.tensor > 1 && shard.sequence_parallel && op.tensor == TensorRole::row;
  return scatters ? whole_blocks(output_bytes(state, op) / shard.tensor) : 0;
}

}  // namespace stepcast::lower
