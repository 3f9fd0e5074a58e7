// Words of the kernels that a step runs.
#pragma once

#include "stepcast/base/spelling.h"

namespace stepcast {

// efficient: CUTLASS's memory-efficient attention (xformers; PyTorch's scaled_dot_product_attention has it too).
enum class AttentionKernel { unfused, efficient, flash1, flash2, flash3, cudnn };

constexpr auto spellings(AttentionKernel) {
  return std::to_array<Spelling<AttentionKernel>>({{AttentionKernel::unfused, "unfused"},
                                                   {AttentionKernel::efficient, "efficient"},
                                                   {AttentionKernel::flash1, "flash1"},
                                                   {AttentionKernel::flash2, "flash2"},
                                                   {AttentionKernel::flash3, "flash3"},
                                                   {AttentionKernel::cudnn, "cudnn"}});
}

// Layers in which PyTorch's scaled_dot_product_attention is given a mask. needed: where its own causal mask is not enough,
// with a window that is not longer than the sequence or with packed documents.
enum class AttentionMasks { none, needed, all };

constexpr auto spellings(AttentionMasks) {
  return std::to_array<Spelling<AttentionMasks>>(
      {{AttentionMasks::none, "none"}, {AttentionMasks::needed, "needed"}, {AttentionMasks::all, "all"}});
}

// What a compiler gets at once (kernels.compile). layers: each layer by itself, as torch calls regional compilation; what
// lies ahead of the layers and behind them runs eagerly. model: the module with all of it. step: the optimizer as well
// (XLA).
enum class CompileScope { layers, model, step };

constexpr auto spellings(CompileScope) {
  return std::to_array<Spelling<CompileScope>>(
      {{CompileScope::layers, "layers"}, {CompileScope::model, "model"}, {CompileScope::step, "step"}});
}

// What torch.compile makes of casts to 8 bits with a scale for each tensor or row (torchao's linears). kept: those of inputs
// with one scale stand for the backward pass (torch 2.7). again: all are made again there, in 8 bits (2.8, 2.9). wide:
// those along rows go through fp32 tensors there (2.12 to 2.15).
enum class CompiledCasts { kept, again, wide };

constexpr auto spellings(CompiledCasts) {
  return std::to_array<Spelling<CompiledCasts>>(
      {{CompiledCasts::kept, "kept"}, {CompiledCasts::again, "again"}, {CompiledCasts::wide, "wide"}});
}

// The cross-entropy. chunked: logits are computed and dropped chunk by chunk. chunk_list: computed chunk by chunk, all kept
// (litgpt's lm_head_chunk_size). output_chunks: the head is called for each of a few chunks, whose logits stand together
// until each has had its own loss (torchtune's CEWithChunkedOutputLoss). fused: gradients take the logits' place (Liger,
// flash-attn, Transformer Engine). fused_linear: projection and loss in one function, chunk by chunk of the tokens, with the
// gradients of its input and of the head's weight, in the forward pass (Liger's fused linear cross-entropy). tiled_linear:
// projection and loss in one function, tile by tile of the tokens and the vocabulary; the backward pass makes each tile
// again and adds its gradients up in fp32 (TRL's fused head). checkpointed_chunks: chunks of the tokens, each a checkpoint
// of projection and loss (TRL's chunked_nll). vocab_parallel: Megatron-LM's own; vocab_parallel_fused: the same, compiled
// (--cross-entropy-loss-fusion, native), which keeps as much.
enum class LossKernel {
  eager,
  fused,
  chunked,
  chunk_list,
  output_chunks,
  fused_linear,
  tiled_linear,
  checkpointed_chunks,
  vocab_parallel,
  vocab_parallel_fused
};

// Projection and loss are one function, which reads the head's weight and returns no logits.
constexpr bool joins_head(LossKernel kernel) {
  return kernel == LossKernel::fused_linear || kernel == LossKernel::tiled_linear ||
         kernel == LossKernel::checkpointed_chunks;
}

// Number of chunks of the sequence of chunked (torchtitan 0.3.0, components/loss.py:610) and output_chunks (torchtune 0.6.1,
// modules/loss/ce_chunked_output_loss.py:30).
inline constexpr int kLossChunks = 8;

constexpr auto spellings(LossKernel) {
  return std::to_array<Spelling<LossKernel>>({{LossKernel::eager, "eager"},
                                              {LossKernel::fused, "fused"},
                                              {LossKernel::chunked, "chunked"},
                                              {LossKernel::chunk_list, "chunk_list"},
                                              {LossKernel::output_chunks, "output_chunks"},
                                              {LossKernel::fused_linear, "fused_linear"},
                                              {LossKernel::tiled_linear, "tiled_linear"},
                                              {LossKernel::checkpointed_chunks, "checkpointed_chunks"},
                                              {LossKernel::vocab_parallel, "vocab_parallel"},
                                              {LossKernel::vocab_parallel_fused, "vocab_parallel_fused"}});
}

// What a trainer computes of a micro-batch's logits behind the loss, without a gradient. accuracy: the likeliest word of
// each position. entropy: that, and the entropy of each position's probabilities.
enum class LogitMetrics { none, accuracy, entropy };

constexpr auto spellings(LogitMetrics) {
  return std::to_array<Spelling<LogitMetrics>>(
      {{LogitMetrics::none, "none"}, {LogitMetrics::accuracy, "accuracy"}, {LogitMetrics::entropy, "entropy"}});
}

}  // namespace stepcast
