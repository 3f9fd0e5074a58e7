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
void finish_trainer(Draft& draft);
void finish_trainer_sizes(Draft& draft);  // without adapters
void fsdp_words(Draft& draft, const Setting& setting, std::string_view key);
void trainer_attention(Draft& draft, const Setting& setting, std::string_view key);
void trainer_under_deepspeed(Draft& draft, const Setting& setting, std::string_view key);

// PEFT's adapters. What is not stated has the usual value; without usual targets, the job's own.
struct Adapters {
  const Setting* asked = nullptr;      // the option that asks for adapters
  const Setting* quantised = nullptr;  // the option that quantises the weights
  const Setting* rank = nullptr;
  const Setting* targets = nullptr;
  const Setting* saved = nullptr;  // modules that are trained whole
  std::string_view usual_rank = "16";
  std::string_view usual_targets = {};
};
void set_adapters(Draft& draft, const Adapters& adapters);

}  // namespace stepcast::interop::launch
