// nanotron's YAML (nanotron 0.4, config/config.py, parallelism_config.py and models_config.py).
#include <fmt/format.h>

#include "../options/batch.h"
#include "../options/launchers.h"
#include "../options/models.h"
#include "../options/rule.h"
#include "../options/sizes.h"
#include "../options/why.h"
#include "readers.h"

namespace stepcast::interop::launch {
namespace {

void nanotron_tied(Draft& d, const Setting& s, std::string_view key) { d.set(s, key, is_true(s)); }

// models_config.py:30, hidden_act of its Llama: a gated MLP with this activation.
void nanotron_activation(Draft& d, const Setting& s, std::string_view key) {
  const std::string kind = plain_text(s.value);
  if (kind.find("silu") == std::string::npos && kind.find("gelu") == std::string::npos) {
    d.unmodelled(s, "an activation of the cost of SiLU");
  } else {
    d.set(s, key, true);
  }
}

// utils_config.py: the names of its engines.
void nanotron_engine(Draft& d, const Setting& s, std::string_view key) {
  const std::string name = plain_text(s.value);
  if (name != "1f1b" && name != "afab") {
    d.refuse(s, fmt::format("{} is '{}'; expected 1f1b | afab", s.shown, name));
    return;
  }
  d.set(s, key, name == "afab" ? "gpipe" : "1f1b");
}

void nanotron_mode(Draft& d, const Setting& s, std::string_view key) {
  const std::string mode = plain_text(s.value);
  if (mode != "all_reduce" && mode != "ALL_REDUCE" && mode != "reduce_scatter" &&
      mode != "REDUCE_SCATTER") {
    d.refuse(s, fmt::format("{} is '{}'; expected ALL_REDUCE | REDUCE_SCATTER", s.shown, mode));
    return;
  }
  d.set(s, key, mode == "reduce_scatter" || mode == "REDUCE_SCATTER");
}

void nanotron_zero(Draft& d, const Setting& s, std::string_view key) {
  const std::string stage = plain_text(s.value);
  if (stage != "0" && stage != "1") {
    d.refuse(s, fmt::format("{} is '{}'; expected 0 | 1, which optim/zero.py has", s.shown, stage));
    return;
  }
  d.set(s, key, stage == "1" ? "zero1" : "none");
}

void nanotron_fp32_gradients(Draft& d, const Setting& s, std::string_view) {
  for (const char* key : {"memory.dtypes.gradients", "memory.dtypes.reduce"}) {
    d.set(s, key, is_true(s) ? "fp32" : "bf16");
  }
}

const std::vector<Rule>& nanotron_rules() {
  static const std::vector<Rule> list = {
      {"model.model-config.num-hidden-layers", "model.layers"},
      {"model.model-config.hidden-size", "model.hidden"},
      {"model.model-config.intermediate-size", "model.ffn"},
      {"model.model-config.num-attention-heads", "model.heads"},
      {"model.model-config.num-key-value-heads", "model.kv_heads"},
      {"model.model-config.vocab-size", "model.vocab"},
      {"model.model-config.tie-word-embeddings", "model.tied_embeddings", nanotron_tied},
      {"model.model-config.hidden-act", "model.gated_mlp", nanotron_activation},
      {"model.dtype", "workload.precision", number_format},
      {"model.make-vocab-size-divisible-by", "system.vocab_divisor"},
      {"model.ddp-bucket-cap-mb", "system.bucket_elements", later},
      {"tokens.sequence-length", "workload.sequence_length"},
      {"tokens.micro-batch-size", "workload.micro_batch", later},
      {"tokens.batch-accumulation-per-replica", "workload.global_batch", later},
      {"parallelism.dp", "", later},
      {"parallelism.tp", "parallelism.tensor"},
      {"parallelism.pp", "parallelism.pipeline"},
      {"parallelism.expert-parallel-size", "parallelism.expert"},
      {"parallelism.pp-engine", "parallelism.schedule", nanotron_engine},
      {"parallelism.tp-mode", "parallelism.sequence_parallel", nanotron_mode},
      {"parallelism.tp-linear-async-communication", "system.async_tensor_backward"},
      {"optimizer.zero-stage", "parallelism.sharding", nanotron_zero},
      {"optimizer.accumulate-grad-in-fp32", "", nanotron_fp32_gradients},
      {"optimizer.torch-adam-is-fused", "system.fused_optimizer"},
  };
  return list;
}

const std::vector<Unread>& nanotron_meaningless() {
  constexpr const char* kNumbers = "numbers of the same cost";
  static const std::vector<Unread> list = {
      {"general.*", "names and seeds"},
      {"checkpoints*", why::kCheckpoints},
      {"data*", why::kData},
      {"lighteval*", why::kOther},
      {"logging*", why::kLogging},
      {"profiler*", why::kLogging},
      {"tokenizer*", why::kTokenizer},
      {"tokens.*", why::kLength},
      {"model.init-method*", "how weights begin"},
      {"model.model-config.is-llama-config", "its Llama"},
      {"model.model-config.bos-token-id", kNumbers},
      {"model.model-config.eos-token-id", kNumbers},
      {"model.model-config.pad-token-id", kNumbers},
      {"model.model-config.initializer-range", "how weights begin"},
      {"model.model-config.max-position-embeddings", "rotary positions have no table"},
      {"model.model-config.rms-norm-eps", kNumbers},
      {"model.model-config.rope-*", "positions of the same cost"},
      {"model.model-config.pretraining-tp", "no part of its Llama"},
      {"model.model-config.use-cache", why::kOther},
      {"optimizer.clip-grad", why::kNorm},
      {"optimizer.*", why::kLearning},
  };
  return list;
}

const std::vector<Unread>& nanotron_unmodelled() {
  static const std::vector<Unread> list = {
      {"model.model-config.*", "the model is a Llama of these sizes"},
  };
  return list;
}

// config.py:228: micro_batch_size x batch_accumulation_per_replica x dp.
void nanotron_batch(Draft& d) {
  const Setting* micro = d.find("tokens.micro-batch-size");
  const Setting* steps = d.find("tokens.batch-accumulation-per-replica");
  const Setting* replicas = d.find("parallelism.dp");
  complete_batch(d, micro, steps, nullptr);
  const auto dp = replicas != nullptr ? d.integer(replicas->name) : std::nullopt;
  if (!dp) {
    return;
  }
  const std::int64_t ranks = d.data_ranks();
  if (ranks > 0 && ranks != *dp) {
    d.fault(replicas->origin,
            fmt::format("{} is {}, but the cluster has {} data-parallel ranks behind tensor and "
                        "pipeline parallelism; expected --nodes that agree",
                        replicas->shown, *dp, ranks));
  }
  d.meaningless(*replicas, "the ranks that tensor and pipeline parallelism leave");
}

void finish_nanotron(Draft& d) {
  const Origin usual = d.defaults();
  if (!d.stated("model.use") && d.request().model.empty()) {
    // models_config.py: LlamaConfig's RMSNorm, rotary positions, gated MLP, and its own sizes.
    d.assume(usual, "model.norm", scalar("rms", usual));
    d.assume(usual, "model.positions", scalar("rotary", usual));
    d.assume(usual, "model.gated_mlp", scalar("true", usual));
    d.assume(usual, "model.tied_embeddings", scalar("false", usual));
    d.assume(usual, "model.biases", scalar("false", usual));
    d.assume(usual, "model.dropout", scalar("0", usual));
  }
  d.assume(usual, "workload.precision", scalar("bf16", usual));  // config.py:186
  if (const Setting* bucket = d.find("model.ddp-bucket-cap-mb")) {
    // trainer.py:669: megabytes of 16-bit gradients.
    if (const auto megabytes = d.integer(bucket->name)) {
      constexpr std::int64_t kElements = 1024 * 1024 / 2;
      d.set(*bucket, "system.bucket_elements", product(*megabytes, kElements));
    }
  }
  nanotron_batch(d);
}

}  // namespace

const Reader& nanotron() {
  static const Reader reader = {
      "nanotron",
      "nanotron",
      {&nanotron_rules(), &common_rules(), &launcher_rules()},
      {&nanotron_meaningless(), &launcher_options()},
      {&nanotron_unmodelled()},
      finish_nanotron,
      true,
      {},
  };
  return reader;
}

}  // namespace stepcast::interop::launch
