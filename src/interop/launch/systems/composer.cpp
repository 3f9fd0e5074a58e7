// llm-foundry's YAML for Composer.
#include <fmt/format.h>

#include "../options/batch.h"
#include "../options/fsdp.h"
#include "../options/models.h"
#include "../options/offload.h"
#include "../options/parallelism.h"
#include "../options/rule.h"
#include "../options/sizes.h"
#include "readers.h"

namespace stepcast::interop::launch {
namespace {

void composer_precision(Draft& d, const Setting& s, std::string_view key) {
  const std::string name = plain_text(s.value);
  d.set(s, key,
        std::string_view(name).starts_with("amp_") ? std::string_view(name).substr(4)
                                                   : std::string_view(name));
}

void composer_policy(Draft& d, const Setting& s, std::string_view key) {
  const std::string name = plain_text(s.value);
  if (name == "PURE") {
    const std::string precision =
        plain_text(d.present("precision") == nullptr ? Value{} : d.present("precision")->value);
    d.set(s, key, precision == "amp_fp16" ? "fp16" : "bf16");
  } else if (name == "DEFAULT") {
    d.set(s, key, "fp32");
  } else if (name == "FULL") {
    d.set(s, key, "fp32");
    d.set(s, "workload.precision", "fp32");
  } else {
    d.refuse(s, fmt::format("{} is '{}'; expected PURE | DEFAULT | FULL", s.shown, name));
  }
}

void composer_attention(Draft& d, const Setting& s, std::string_view key) {
  const std::string name = plain_text(s.value);
  if (name == "flash") {
    d.set(s, key, "flash2");
  } else if (name == "triton") {
    d.set(s, key, "flash1");  // a port of the first FlashAttention (llm-foundry 0.4.0)
  } else if (name == "torch") {
    d.set(s, key, "unfused");
  } else {
    d.refuse(s, fmt::format("{} is '{}'; expected flash | triton | torch", s.shown, name));
  }
}

void composer_loss(Draft& d, const Setting& s, std::string_view key) {
  const std::string name = plain_text(s.value);
  if (name == "torch_crossentropy" || name == "fused_crossentropy") {
    d.set(s, key, name == "fused_crossentropy" ? "fused" : "eager");
  } else {
    d.refuse(s, fmt::format("{} is '{}'; expected fused_crossentropy | torch_crossentropy", s.shown,
                            name));
  }
}

void composer_metrics(Draft& d, const Setting& s, std::string_view key) {
  if (plain_text(s.value) == "false") {
    d.set(s, key, std::int64_t{0});
  }
}

void composer_reentrance(Draft& d, const Setting& s, std::string_view) {
  const bool reentrant = plain_text(s.value) != "false";
  d.set(s, "system.early_stop", !reentrant);
  d.set(s, "system.reentrant_checkpoints", reentrant);
}

void composer_optimizer(Draft& d, const Setting& s, std::string_view key) {
  if (plain_text(s.value).find("lion") != std::string::npos) {
    d.set(s, key, "lion");  // one moment
  }
}

void norm(Draft& d, const Setting& s, std::string_view key) {
  const std::string name = plain_text(s.value);
  d.set(s, key, name.find("rms") != std::string::npos ? "rms" : "layer");
}

void gated(Draft& d, const Setting& s, std::string_view key) {
  const std::string name = plain_text(s.value);
  if (name.find("moe") != std::string::npos || name.find("dmoe") != std::string::npos) {
    d.refuse(s, fmt::format("{} '{}' has experts; expected --model NAME", s.shown, name));
  } else {
    d.set(s, key, name.find("glu") != std::string::npos);
  }
}

void widths(Draft& d) {
  const auto hidden = d.number("model.d-model");
  const auto ratio = d.number("model.expansion-ratio");
  if (const Setting* s = d.find("model.expansion-ratio"); s != nullptr && hidden && ratio) {
    d.set(*s, "model.ffn", whole_part(*hidden * *ratio));
  }
}

const std::vector<Rule>& composer_rules() {
  static const std::vector<Rule> list = {
      {"max-seq-len", "workload.sequence_length"},
      {"model.pretrained-model-name-or-path", "model", named_model},
      {"model.d-model", "model.hidden"},
      {"model.n-heads", "model.heads"},
      {"model.n-layers", "model.layers"},
      {"model.expansion-ratio", "model.ffn", later},
      {"model.max-seq-len", "model.max_positions"},
      {"model.vocab-size", "model.vocab"},
      {"model.no-bias", "model.biases", no},
      {"model.tie-word-embeddings", "model.tied_embeddings", yes},
      {"model.norm-type", "model.norm", norm},
      {"model.resid-pdrop", "model.dropout"},
      {"model.ffn-config.ffn-type", "model.gated_mlp", gated},
      {"model.attn-config.attn-impl", "kernels.attention", composer_attention},
      {"model.loss-fn", "kernels.loss", composer_loss},
      {"model.use-train-metrics", "system.loss_metrics", composer_metrics},
      {"optimizer.name", "memory.optimizer", composer_optimizer},
      {"model.attn-config.kv-n-heads", "model.kv_heads"},
      {"model.attn-config.rope", "model.positions", if_true<"rotary">},
      {"model.attn-config.alibi", "model.positions", if_true<"alibi">},
      {"model.attn-config.sliding-window-size", "model.sliding_window"},
      {"global-train-batch-size", "workload.global_batch", later},
      {"device-train-microbatch-size", "workload.micro_batch", later},
      {"device-train-batch-size", "workload.global_batch", later},
      {"precision", "workload.precision", composer_precision},
      {"fsdp-config.sharding-strategy", "parallelism.sharding", fsdp_strategy},
      {"fsdp-config.mixed-precision", "memory.dtypes.reduce", composer_policy},
      {"fsdp-config.activation-checkpointing", "memory.recompute", full_recompute},
      {"fsdp-config.activation-checkpointing-reentrant", "system.early_stop", composer_reentrance},
      {"fsdp-config.activation-cpu-offload", "memory.offload.activations", offloaded_if_true},
      {"fsdp-config.cpu-offload", "memory.offload", fsdp_offloaded_if_true},
      {"fsdp-config.limit-all-gathers", "system.limit_all_gathers", yes},
      {"fsdp-config.use-orig-params", "system.original_parameters", yes},
      {"fsdp-config.backward-prefetch", "", fsdp_backward_prefetch},
      {"fsdp-config.forward-prefetch", "", fsdp_forward_prefetch},
      {"fsdp-config.data-parallel-shard-degree", "parallelism.shard_size", later},
      {"fsdp-config.data-parallel-replicate-degree", "parallelism.shard_size", later},
      {"tp-config.tensor-parallel-degree", "parallelism.tensor"},
  };
  return list;
}

const std::vector<Unread>& composer_meaningless() {
  constexpr const char* kLearning = "affects learning and not speed";
  constexpr const char* kLogging = "logging";
  constexpr const char* kData = "data loading is assumed to be fast enough";
  constexpr const char* kCheckpoint = "checkpoints are not part of a step";
  constexpr const char* kEvaluation = "evaluation is not part of a training step";
  static const std::vector<Unread> list = {
      {"variables.*", "read where the file uses it"},
      {"run-name", kLogging},
      {"experiment-name", kLogging},
      {"model.name", "the model's own keys state its sizes"},
      {"model.init-device", "how weights are loaded"},
      {"model.init-config.*", kLearning},
      {"model.pretrained", "how weights are loaded"},
      {"model.use-auth-token", "how weights are loaded"},
      {"model.attn-config.attn-uses-sequence-id", kData},
      {"model.attn-config.clip-qkv", "numerics of the same cost"},
      {"tokenizer.*", "the tokenizer's vocabulary; only its size matters"},
      {"train-loader.*", kData},
      {"eval-*", kEvaluation},
      {"icl-*", kEvaluation},
      {"device-eval-batch-size", kEvaluation},
      {"scheduler.*", kLearning},
      {"optimizer.*", kLearning},
      {"algorithms.*", kLearning},
      {"seed", kLearning},
      {"max-duration", "the length of the run"},
      {"progress-bar", kLogging},
      {"log-to-console", kLogging},
      {"console-log-interval", kLogging},
      {"python-log-level", kLogging},
      {"callbacks.*", kLogging},
      {"loggers.*", kLogging},
      {"save-*", kCheckpoint},
      {"load-*", kCheckpoint},
      {"autoresume", kCheckpoint},
      {"dist-timeout", "how the processes start"},
      {"fsdp-config.sync-module-states", "how weights are loaded"},
      {"fsdp-config.state-dict-type", kCheckpoint},
      {"fsdp-config.verbose", kLogging},
  };
  return list;
}

const std::vector<Unread>& composer_unmodelled() {
  static const std::vector<Unread> list = {
      {"fsdp-config.backward-prefetch-limit", "one unit is prefetched"},
      {"fsdp-config.forward-prefetch-limit", "one unit is prefetched"},
      {"fsdp-config.te-*", "Transformer Engine's own options"},
      {"fsdp-config.keep-low-precision-grads", "gradients are accumulated as memory.dtypes states"},
      {"model.attn-config.*", "attention as MPT has it by default"},
      {"model.block-overrides.*", "every layer is alike"},
      {"tp-config.*", "layers are split as Megatron-LM splits them"},
  };
  return list;
}

void finish_composer(Draft& d) {
  const Origin start = d.defaults();
  if (d.value("model.hidden") != nullptr) {
    // MPTConfig has biases, tied embeddings, and learned positions unless rope or ALiBi is set.
    d.assume(start, "model.biases", scalar("true", start));
    d.assume(start, "model.tied_embeddings", scalar("true", start));
    d.assume(start, "model.positions", scalar("learned", start));
    d.assume(start, "model.norm", scalar("layer", start));
    widths(d);
  } else {
    // A model of transformers: blocks alone are units (llm-foundry 0.22.0,
    // models/hf/hf_fsdp.py:217), its own modules compute attention and, from fp32 logits, the loss.
    for (const char* const key :
         {"system.wraps_ends", "system.packed_qkv", "system.unpads_attention",
          "system.narrow_log_softmax", "system.loss_outside_model"}) {
      d.assume(start, key, scalar("false", start));
    }
    d.assume(start, "system.transformers_modules", scalar("true", start));
    d.assume(start, "kernels.loss", scalar("eager", start));
  }
  hybrid_sharding(d, d.find("fsdp-config.data-parallel-replicate-degree"),
                  d.find("fsdp-config.data-parallel-shard-degree"));
  const Setting* global = d.find("global-train-batch-size");
  complete_batch(d, d.find("device-train-microbatch-size"), nullptr, global);
  if (global == nullptr) {
    if (const Setting* device = d.find("device-train-batch-size")) {
      const auto n = d.integer("device-train-batch-size");
      if (n && d.data_ranks() > 0) {
        d.set(*device, "workload.global_batch", *n * d.data_ranks());
      }
    }
  }
}

}  // namespace

const Reader& composer() {
  static const Reader reader = {
      "composer",
      "composer",
      {&composer_rules(), &common_rules()},
      {&composer_meaningless()},
      {&composer_unmodelled()},
      finish_composer,
      true,
  };
  return reader;
}

}  // namespace stepcast::interop::launch
