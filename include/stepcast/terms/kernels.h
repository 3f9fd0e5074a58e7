// Words of the kernels that a step runs.
#pragma once

#include "stepcast/base/spelling.h"

namespace stepcast {

enum class AttentionKernel { unfused, flash1, flash2, flash3, cudnn };

constexpr auto spellings(AttentionKernel) {
  return std::to_array<Spelling<AttentionKernel>>({{AttentionKernel::unfused, "unfused"},
                                                   {AttentionKernel::flash1, "flash1"},
                                                   {AttentionKernel::flash2, "flash2"},
                                                   {AttentionKernel::flash3, "flash3"},
                                                   {AttentionKernel::cudnn, "cudnn"}});
}

// The cross-entropy. chunked: logits are computed and dropped chunk by chunk. chunk_list: computed chunk by chunk, all kept
// (litgpt's lm_head_chunk_size).
enum class LossKernel { eager, fused, chunked, chunk_list, vocab_parallel };

constexpr auto spellings(LossKernel) {
  return std::to_array<Spelling<LossKernel>>({{LossKernel::eager, "eager"},
                                              {LossKernel::fused, "fused"},
                                              {LossKernel::chunked, "chunked"},
                                              {LossKernel::chunk_list, "chunk_list"},
                                              {LossKernel::vocab_parallel, "vocab_parallel"}});
}

}  // namespace stepcast
