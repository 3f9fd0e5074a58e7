// How tensor parallelism in one dimension cuts a unit: what its collectives (passes_tensor.cpp) and
// its products in chunks (passes_tensor_chunks.cpp) both read.
#pragma once

#include <vector>

#include "pass_state.h"

namespace stepcast::lower {

struct TensorCut {
  int ranks = 1;
  bool sequence_parallel = false;
  std::vector<bool> opens;  // by operator: it gathers its input
};

// With 1 rank where the plan has no tensor parallelism in one dimension.
TensorCut tensor_cut(const PassState& state);

// The product's input (of a gradient's: its output gradient) arrives in chunks beside it.
bool chunked_gather(const TensorCut& cut, const PassState& state, std::size_t i,
                    cost::Layout layout);
// The product's result leaves in chunks beside it.
bool chunked_scatter(const TensorCut& cut, const PassState& state, std::size_t i,
                     cost::Layout layout);

// A DTensor's collectives gather and scatter along the first dimension of tensors; the sequence is
// the second, so parts are joined or cut by a copy (torch/distributed/_functional_collectives.py:
// all_gather_tensor, reduce_scatter_tensor). Nothing under another framework.
void copy_sequence(PassState& state, std::int64_t bytes, const std::string& label);

// A row product's scattered result, which a recomputation that chooses operators keeps; 0 of other
// operators.
std::int64_t kept_scattered_result(const PassState& state, const model::Operator& op);

}  // namespace stepcast::lower
