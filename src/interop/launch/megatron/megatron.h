// Megatron-LM and its forks share one command line: parts of its reader.
#pragma once

#include <string_view>
#include <vector>

#include "../options/rule.h"

namespace stepcast::interop::launch {

const std::vector<Rule>& megatron_model_rules();
const std::vector<Rule>& megatron_hybrid_rules();
const std::vector<Rule>& megatron_parallel_rules();
const std::vector<Rule>& megatron_peft_rules();  // of recipes: peft, peft.dim
const std::vector<Rule>& megatron_kernel_rules();
const std::vector<Rule>& megatron_bf16_layer_rules();
const std::vector<Rule>& megatron_fork_rules();
const std::vector<Unread>& megatron_meaningless();
const std::vector<Unread>& megatron_unmodelled();
const std::vector<Unread>& bridge_meaningless();
const std::vector<Unread>& bridge_unmodelled();

void finish_megatron_model(Draft& draft);
void finish_megatron_hybrid(Draft& draft);
void finish_megatron_parallel(Draft& draft);
// The options that make the output projection's weight gradient wait, and for how many
// micro-batches.
void deferred_head(Draft& draft, std::string_view waits, std::string_view limit);
// The distributed optimizer of a recipe, which its optimizer's settings and those of data
// parallelism (`ddp`) both state, and which recipes switch on: the optimizer's counts, or `either`.
void recipe_distributed_optimizer(Draft& draft, std::string_view optimizer, bool either);
void finish_megatron_kernels(Draft& draft);
void finish_megatron_graphs(Draft& draft);
// --cross-entropy-loss-fusion and --cross-entropy-fusion-impl where Transformer Engine's kernel is
// the default (Megatron-Bridge 0.1.0rc4 models/llama/llama_provider.py:186, NeMo 2.5.0
// scripts/helpers.py:367).
void bridge_fused_loss(Draft& draft, const Setting& setting, std::string_view key);
void finish_megatron_recompute(Draft& draft);
// A recipe leaves so many of the first and last layers in 16 bits.
void recipe_bf16_layers(Draft& draft, const Setting& recipe, int start, int end);
void finish_bf16_layers(Draft& draft);
void finish_megatron_fork(Draft& draft);

}  // namespace stepcast::interop::launch
