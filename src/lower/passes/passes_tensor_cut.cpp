#include <algorithm>
#include <set>

#include "../tensors/redone.h"
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

bool cut_in_chunks(const TensorCut& cut, const PassState& state, const Operator& op) {
  const TensorOverlap overlap = state.plan.tensor_parallel.product_overlap;
  return cut.ranks > 1 && cut.sequence_parallel && op.kind == model::OpKind::gemm &&
         (op.tensor == TensorRole::column || op.tensor == TensorRole::row) && !op.whole_input &&
         (overlap == TensorOverlap::ring || overlap == TensorOverlap::async);
}

}  // namespace

TensorCut tensor_cut(const PassState& state) {
  const model::Shard& shard = state.plan.shard;
  return {on_grid(state.plan) ? 1 : shard.tensor, shard.sequence_parallel,
          opening_operators(state.graph)};
}

bool chunked_gather(const TensorCut& cut, const PassState& state, std::size_t i,
                    cost::Layout layout) {
  const Operator& op = state.graph.operators[i];
  return cut_in_chunks(cut, state, op) &&
         ((layout == cost::Layout::forward && op.tensor == TensorRole::column && cut.opens[i]) ||
          (layout == cost::Layout::input_grad && op.tensor == TensorRole::row));
}

bool chunked_scatter(const TensorCut& cut, const PassState& state, std::size_t i,
                     cost::Layout layout) {
  const Operator& op = state.graph.operators[i];
  const bool pipelined = state.plan.tensor_parallel.product_overlap == TensorOverlap::async;
  return cut_in_chunks(cut, state, op) &&
         ((layout == cost::Layout::forward && op.tensor == TensorRole::row) ||
          (layout == cost::Layout::input_grad && op.tensor == TensorRole::column && cut.opens[i] &&
           pipelined));
}

void copy_sequence(PassState& state, std::int64_t bytes, const std::string& label) {
  if (!state.plan.tensor_parallel.saves_gathered_input) {
    return;
  }
  memory_kernel(state, cost::MemoryOp::copy, 2 * bytes, label + " sequence copy");
  state.out->back().category = program::Category::compute;  // also where forward runs again
}

std::int64_t kept_scattered_result(const PassState& state, const Operator& op) {
  const model::Shard& shard = state.plan.shard;
  const bool keeps = state.plan.tensor_parallel.keeps_scattered_results;
  return keeps && scatters_result(shard, op) ? whole_blocks(output_bytes(state, op) / shard.tensor)
                                             : 0;
}

}  // namespace stepcast::lower
