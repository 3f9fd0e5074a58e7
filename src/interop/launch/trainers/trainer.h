// HuggingFace's TrainingArguments, over which other trainers lay their own options.
#pragma once

#include <string_view>
#include <vector>

#include "../options/rule.h"

namespace stepcast::interop::launch {

// Rules for TrainingArguments and the same options in Accelerate's files; and their batch.
const std::vector<Rule>& trainer_rules();
const std::vector<Unread>& trainer_meaningless();
const std::vector<Unread>& trainer_unmodelled();
// The same of Accelerate's own YAML, of which of_accelerate recognises a setting.
const std::vector<Rule>& accelerate_rules();
const std::vector<Unread>& accelerate_meaningless();
const std::vector<Unread>& accelerate_unmodelled();
bool of_accelerate(const Setting& setting);
void finish_trainer(Draft& draft);
void finish_trainer_sizes(Draft& draft);  // without adapters
void peft_adapters(Draft& draft);         // as PEFT's options state them
void trainer_weights(Draft& draft);       // in the format that `dtype` names
// Weights that are loaded in `format` and trained as they are: gradients and moments have it too.
// With adapters it is that of the frozen base, beside which PEFT's are fp32. `from`: the option
// that says so; nullptr: the trainer's default.
void loaded_weights(Draft& draft, const Setting* from, std::string_view format);
void fsdp_words(Draft& draft, const Setting& setting, std::string_view key);
// Attention by flash-attn's or another package, not PyTorch's scaled_dot_product_attention.
void attention_of_package(Draft& draft, const Setting& setting, std::string_view kernel);
void flash_package_if_true(Draft& draft, const Setting& setting, std::string_view key);
void trainer_attention(Draft& draft, const Setting& setting, std::string_view key);
void trainer_under_deepspeed(Draft& draft, const Setting& setting, std::string_view key);

}  // namespace stepcast::interop::launch
