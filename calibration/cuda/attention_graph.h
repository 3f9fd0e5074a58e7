// Attention as a graph of cuDNN operations that its fused (flash) kernels recognise.
#pragma once

#include <vector>

#include "../harness/device.h"
#include "attention_cudnn.h"

namespace stepcast::harness::cuda {

// Tensors in memory: [sequences, heads, length, head_dim] laid out as [sequence, position, head,
// element]; `stats` (log-sum-exp) [sequences, heads, length, 1] in fp32.
enum AttentionTensor : std::int64_t {
  kQ = 1,
  kK,
  kV,
  kO,
  kStats,
  kGradO,
  kGradQ,
  kGradK,
  kGradV,
  // Scalars on the host.
  kScale,      // 1 / sqrt(head_dim)
  kMaskedOut,  // value of a masked score
  kOne,
  // Scratch in memory.
  kRowSum,  // of dO * O
  kGradQSum,
  kFullGradK,
  kFullGradV,
};

struct AttentionScratch {
  std::int64_t uid = 0;
  std::int64_t bytes = 0;
  bool zeroed = false;  // before each launch
};

struct AttentionGraph {
  CudnnGraph operations;
  Descriptor graph;
  Descriptor plan;
  std::vector<std::int64_t> tensors;  // uids in memory, without the scratch
  std::vector<std::int64_t> values;   // uids on the host
  std::vector<AttentionScratch> scratch;
};

// Elements of a tensor in memory (kQ to kGradV).
std::int64_t attention_elements(const interop::AttentionCase& what, std::int64_t uid);
float attention_value(const interop::AttentionCase& what, std::int64_t uid);

// Throws Unsupported where no plan of cuDNN runs it on this device.
AttentionGraph plan_attention(const interop::AttentionCase& what, const CudnnDevice& device);

}  // namespace stepcast::harness::cuda
