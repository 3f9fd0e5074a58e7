// Flags that forks of Megatron-LM add, and the preset of each fork.
#include <fmt/format.h>

#include "../options/offload.h"
#include "../options/parallelism.h"
#include "../options/rule.h"
#include "megatron.h"

namespace stepcast::interop::launch {
namespace {

// Megatron-LLaMA: gradients and states are sharded, and gradients are reduced after every
// micro-batch.
void overlapped_optimizer(Draft& d, const Setting& s, std::string_view) {
  d.preset = "megatron-llama";
  d.set(s, "parallelism.sharding", "zero2");
  d.set(s, "parallelism.accumulation.reduce", "each");
  d.set(s, "parallelism.overlap.grad_reduce", true);
  d.set(s, "parallelism.overlap.param_gather", true);
}

// Megatron-LLaMA's pretrain_llama.py builds LLaMA: RMSNorm and an untied head (from memory; its
// flags do not say so).
void llama(Draft& d, const Setting& s, std::string_view) {
  d.set(s, "model.norm", "rms");
  d.set(s, "model.tied_embeddings", false);
}

void under_deepspeed(Draft& d, const Setting&, std::string_view) {
  d.preset = "megatron-deepspeed";
}

void no_pipeline(Draft& d, const Setting& s, std::string_view key) {
  // The flag only means that layers are not in a PipelineModule; with one stage it changes nothing.
  if (is_true(s) && d.size("parallelism.pipeline", 1) == 1) {
    d.set(s, key, 1);
  }
}

void zero_bubble(Draft& d) {
  const bool enabled = d.on("enable-zero-bubble");
  const Setting* shaped = nullptr;
  for (const char* name : {"enable-1f1b-v", "zero-bubble-v-schedule"}) {
    shaped = d.on(name) ? d.present(name) : shaped;
  }
  const Setting* pending = d.find("zero-bubble-max-pending-backward");
  const Setting* setup = d.find("zero-bubble-v-schedule-mem-setup");
  if (!enabled && shaped == nullptr && !d.on("enable-vocab-parallel") &&
      !d.on("enable-zb-runtime")) {
    return;
  }
  d.preset = "zero-bubble";
  constexpr const char* kKey = "parallelism.schedule";
  if (shaped != nullptr) {
    const std::string how = setup == nullptr ? "zb" : plain_text(setup->value);
    d.set(setup == nullptr ? *shaped : *setup, kKey,
          how == "min"    ? "v_min"
          : how == "half" ? "v_half"
                          : "zb_v");
    d.drop("parallelism.virtual_pipeline");  // its two chunks are part of the schedule
  } else if (enabled) {
    d.set(*d.present("enable-zero-bubble"), kKey, "zb_auto");
    const auto live = d.number("zero-bubble-max-pending-backward");
    const auto stages = static_cast<double>(d.size("parallelism.pipeline", 1));
    if (pending != nullptr && live) {
      // The option counts micro-batches in flight; in 1F1B the first stage has as many as there are
      // stages.
      d.set(*pending, "parallelism.schedule.memory_limit", *live / stages);
    }
  }
  if (d.on("enable-optimizer-post-validation")) {
    d.set(*d.present("enable-optimizer-post-validation"), "system.optimizer_post_validation", true);
  } else {
    d.assume(d.defaults(), "system.optimizer_post_validation", scalar("false", d.defaults()));
  }
}

}  // namespace

const std::vector<Rule>& megatron_fork_rules() {
  static const std::vector<Rule> rules = {
      // Megatron-LLaMA
      flag("overlapped-distributed-optimizer", "", overlapped_optimizer),
      {"reduce-bucket-size", "system.bucket_elements"},
      flag("causal-lm", "model.norm", llama),
      // Megatron-DeepSpeed
      flag("deepspeed", "", under_deepspeed),
      {"zero-stage", "parallelism.sharding", zero_stage},
      flag("no-pipeline-parallel", "parallelism.pipeline", no_pipeline),
      flag("deepspeed-activation-checkpointing", "memory.recompute",
           [](Draft& d, const Setting& s, std::string_view key) { d.set(s, key, "full"); }),
      // zero bubble
      flag("enable-zero-bubble"),
      flag("enable-zb-runtime"),
      flag("zero-bubble-v-schedule"),
      flag("enable-1f1b-v"),
      {"zero-bubble-v-schedule-mem-setup", "parallelism.schedule", later},
      {"zero-bubble-max-pending-backward", "parallelism.schedule", later},
      flag("enable-optimizer-post-validation"),
      flag("enable-vocab-parallel"),
      // Yuan et al. (Megatron-Kwai)
      flag("overlap-sp-ag", "parallelism.overlap.tensor",
           [](Draft& d, const Setting& s, std::string_view key) { d.set(s, key, "ring"); }),
      flag("overlap-sp-rs", "parallelism.overlap.tensor",
           [](Draft& d, const Setting& s, std::string_view key) { d.set(s, key, "ring"); }),
      {"kaimm-offload-activation-ratio", "memory.offload.activations", offloaded_share},
  };
  return rules;
}

void finish_megatron_fork(Draft& d) {
  zero_bubble(d);
  for (const Setting& s : d.settings()) {
    if (s.name.starts_with("kaimm-")) {
      d.preset = "megatron-kwai";
    }
  }
}

}  // namespace stepcast::interop::launch
