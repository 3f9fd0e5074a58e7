// What optimizers keep for each array and what their step costs. Both depend on an array's shape:
// Adafactor keeps rows and columns, Muon one moment of a matrix, 8-bit states a scale for each
// block.
#pragma once

#include <cstdint>
#include <vector>

#include "../passes/passes.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::lower {

// The least bytes of optimizer moments per parameter, for bounds.
double moment_bytes(Optimizer kind, double momentum, DType moments);

// Tensors of one rank, bytes each as requested.
struct StateTensors {
  std::vector<std::int64_t> parameters;
  std::vector<std::int64_t> gradients;
  std::vector<std::int64_t> master;
  std::vector<std::int64_t> moments;
  std::vector<std::int64_t> wide_gradients;  // fp32 copies of narrow ones, as the optimizer reads
};

// How the ranks that share an array divide its states.
struct Shares {
  strategy::DataComm comm = strategy::DataComm::none;
  int dense = 1;   // ranks
  int expert = 1;  // of the experts' arrays
  // A contiguous buffer's buckets are divided one by one. Elements that close a bucket, in the
  // buffers of this many model chunks from the first on; the others are one bucket.
  std::int64_t bucket = 0;
  int chunks_in_buckets = 0;
};

// The arrays that a rank owns and steps, of the rank that owns the most elements.
std::vector<Array> owned_arrays(const strategy::Plan& plan, const std::vector<Array>& arrays,
                                const Shares& shares);

// Whole arrays dealt to `ranks` ranks, the largest first, each to the rank with the fewest elements
// so far (InternEvo 0.5.2, solver/optimizer/hybrid_zero_optim.py:256, _partition_param_list). Dense
// arrays, or experts' ones. Ranks may get none.
std::vector<std::vector<Array>> dealt_by_size(const std::vector<Array>& arrays, bool expert,
                                              int ranks);

// Gradients are none where the framework makes them in the backward pass (DDP, FSDP2).
StateTensors state_tensors(const strategy::Plan& plan, const Shares& shares,
                           const std::vector<Array>& arrays);

// A momentum that Muon orthogonalises: `count` matrices of m <= n.
struct Orthogonal {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t count = 0;
};

// One rank's step without the time of Newton-Schulz products and of gathers of whole matrices.
struct StepCost {
  double moved = 0;            // bytes read and written
  std::int64_t launches = 1;   // kernels
  std::int64_t temporary = 0;  // bytes that live within the step
  // These by tensor, where they are lists of many: of dense parameters and of experts', which an
  // optimizer of their own steps behind the other (megatron-core 0.16.1,
  // optimizer/__init__.py:461).
  std::vector<std::vector<std::int64_t>> temporaries;
  // DeepSpeed's ZeRO-1 and 2 (stage_1_and_2.py): the norm of a partition is taken tensor by tensor
  // in fp64 (get_grad_norm_direct), then its gradients are copied into one tensor in their own
  // format before it becomes fp32. Others take the norm of fp32 copies of all tensors. Bytes.
  std::int64_t norm_temporary = 0;
  std::vector<std::int64_t> norm_copies;
  std::int64_t flat_gradients = 0;
  std::vector<Orthogonal> orthogonal;
  double gathered = 0;  // bytes of matrices that arrive from their shards
};
// Of what a rank steps, the share that the host does: a stated share may be that of whole arrays.
double share_on_host(const strategy::Plan& plan, const Shares& shares,
                     const std::vector<Array>& arrays);
StepCost step_cost(const strategy::Plan& plan, const Shares& shares,
                   const std::vector<Array>& arrays);

// Newton-Schulz iterations of Muon (Jordan et al., 2024), three products each: A = X X^T, B = b A +
// c A A, X = a X + B X.
inline constexpr int kNewtonSchulzSteps = 5;

}  // namespace stepcast::lower
