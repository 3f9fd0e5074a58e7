// Colossal-AI: arguments of its training examples, and of its plugins (JSON or YAML of keyword
// arguments).
#include <fmt/format.h>

#include "../options/fsdp.h"
#include "../options/launchers.h"
#include "../options/models.h"
#include "../options/offload.h"
#include "../options/parallelism.h"
#include "../options/rule.h"
#include "../options/sizes.h"
#include "../options/why.h"
#include "readers.h"

namespace stepcast::interop::launch {
namespace {

// GeminiPlugin shards parameters, LowLevelZeroPlugin states (and gradients), HybridParallelPlugin
// has zero_stage.
void plugin(Draft& d, const Setting& s, std::string_view key) {
  const std::string name = plain_text(s.value);
  if (name.starts_with("gemini")) {
    d.set(s, key, "zero3");
    if (name == "gemini_auto") {
      d.launch().remarks.push_back({s.origin,
                                    "gemini_auto moves chunks to the host when memory is short; "
                                    "the forecast keeps all of them on the GPU"});
    }
  } else if (name == "zero2" || name == "zero1") {
    d.set(s, key, std::string_view(name));
  } else if (name == "zero2_cpu") {
    d.set(s, key, "zero2");
    d.set(s, "memory.offload.optimizer", "cpu");
  } else if (name == "fsdp" || name == "torch_fsdp") {
    d.set(s, key, "zero3");
  } else if (name == "3d" || name == "hybrid_parallel" || name == "3d_cpu" || name == "moe") {
    // its own options state the rest
    if (name == "3d_cpu") {
      d.set(s, "memory.offload.optimizer", "cpu");
    }
  } else if (name == "ddp" || name == "torch_ddp") {
    d.set(s, key, "none");
  } else {
    d.refuse(s,
             fmt::format("{} is '{}'; expected ddp | zero1 | zero2 | gemini | gemini_auto | 3d | "
                         "hybrid_parallel | torch_fsdp",
                         s.shown, name));
  }
}

void mode(Draft& d, const Setting& s, std::string_view) {
  const std::string name = plain_text(s.value);
  const Setting* size = d.find("sp");
  if (name == "split_gather" || name == "ring") {
    d.set(s, "parallelism.sequence_parallel", true);
    if (name == "ring") {
      d.set(s, "parallelism.overlap.tensor", "ring");
    }
  } else if (name == "all_to_all" || name == "ring_attn") {
    if (size != nullptr) {
      d.set(*size, "parallelism.context.size", size->value);
      d.set(s, "parallelism.context.kind", name == "ring_attn" ? "p2p" : "a2a");
    }
  } else if (!name.empty()) {
    d.refuse(s, fmt::format("{} is '{}'; expected split_gather | ring | all_to_all | ring_attn",
                            s.shown, name));
  }
}

void style(Draft& d, const Setting& s, std::string_view key) {
  const std::string name = plain_text(s.value);
  if (name == "1f1b") {
    d.set(s, key, "1f1b");
  } else if (name == "interleaved") {
    d.set(s, key, "interleaved_1f1b");
  } else if (name == "zbv") {
    d.set(s, key, "zb_v");
  } else {
    d.refuse(s, fmt::format("{} is '{}'; expected 1f1b | interleaved | zbv", s.shown, name));
  }
}

void colossalai_chunks(Draft& d, const Setting& s, std::string_view key) {
  const std::string n = plain_text(s.value);
  // The two chunks of zbv are part of the schedule.
  const Setting* how = d.find("pp-style");
  if (n != "1" && (how == nullptr || plain_text(how->value) != "zbv")) {
    d.set(s, key, s.value);
  }
}

void mebielements(Draft& d, const Setting& s, std::string_view key) {
  const auto n = d.integer(s.name);
  constexpr std::int64_t kMebi = 1024 * 1024;
  if (n && *n > 0 && *n < kMebi) {
    d.set(s, key, *n * kMebi);
  }
}

void colossalai_prefetch(Draft& d, const Setting& s, std::string_view) {
  const bool ahead = plain_text(s.value) != "0";
  d.set(s, "system.forward_prefetch", ahead ? "explicit" : "none");
  d.set(s, "system.backward_prefetch", ahead ? "explicit" : "none");
}

const std::vector<Rule>& colossalai_rules() {
  static const std::vector<Rule> list = {
      {"plugin", "parallelism.sharding", plugin},
      spelling("p", "plugin"),
      {"pretrained", "model", named_model},
      {"model-name-or-path", "model", named_model},
      {"config", "model", named_model},
      spelling("c", "config"),
      {"tp", "parallelism.tensor"},
      spelling("tp-size", "tp"),
      {"pp", "parallelism.pipeline"},
      spelling("pp-size", "pp"),
      {"sp", "parallelism.context.size", later},
      spelling("sp-size", "sp"),
      {"ep-size", "parallelism.expert"},
      {"zero", "parallelism.sharding", zero_stage},
      spelling("zero-stage", "zero"),
      spelling("stage", "zero"),
      {"sp-mode", "", mode},
      spelling("sequence-parallelism-mode", "sp-mode"),
      flag("enable-sequence-parallelism", "parallelism.sequence_parallel", yes),
      {"pp-style", "parallelism.schedule", style},
      {"num-model-chunks", "parallelism.virtual_pipeline", colossalai_chunks},
      spelling("n-chunks", "num-model-chunks"),
      {"num-layers-per-stage", "parallelism.layers_per_stage"},
      spelling("b", "batch-size"),
      {"batch-size", "workload.micro_batch", later},
      {"micro-batch-size", "workload.micro_batch", later},
      {"microbatch-size", "workload.micro_batch", later},
      spelling("mbs", "microbatch-size"),
      {"num-microbatches", "workload.micro_batch", later},
      {"accumulation-steps", "workload.global_batch", later},
      spelling("l", "max-length"),
      {"max-length", "workload.sequence_length"},
      spelling("precision", "mixed-precision"),
      {"mixed-precision", "workload.precision", number_format},
      spelling("g", "grad-checkpoint"),
      flag("grad-checkpoint", "memory.recompute", full_recompute),
      spelling("use-grad-checkpoint", "grad-checkpoint"),
      spelling("x", "xformers"),
      flag("xformers", "kernels.attention", if_true<"flash2">),
      flag("use-flash-attn", "kernels.attention", if_true<"flash2">),
      spelling("enable-flash-attention", "use-flash-attn"),
      flag("enable-fused-normalization", "system.fused_norm", yes),
      flag("overlap-communication", "parallelism.overlap.grad_reduce", yes),
      flag("overlap-allgather", "parallelism.overlap.param_gather", yes),
      flag("overlap-p2p", "parallelism.overlap.pipeline", yes),
      flag("enable-async-reduce", "parallelism.overlap.grad_reduce", yes),
      {"zero-bucket-size-in-m", "system.sharded_bucket_elements", mebielements},
      spelling("reduce-bucket-size-in-m", "zero-bucket-size-in-m"),
      {"ddp-bucket-cap-mb", "system.bucket_bytes", mebibytes},
      {"make-vocab-size-divisible-by", "system.vocab_divisor"},
      {"max-prefetch", "", colossalai_prefetch},
      spelling("prefetch-num", "max-prefetch"),
      flag("cpu-offload", "memory.offload.optimizer", offloaded_if_true),
      {"offload-optim-frac", "memory.offload.optimizer", offloaded_share},
      {"offload-param-frac", "memory.offload.parameters", offloaded_share},
      {"tensor-parallel-mode", "parallelism.tensor_kind"},
      {"parallel.tensor.size", "parallelism.tensor"},
      {"parallel.tensor.mode", "parallelism.tensor_kind"},
      {"parallel.tensor.depth", "parallelism.tensor_depth"},
      {"parallel.pipeline", "parallelism.pipeline"},
      flag("use-fp8", "workload.precision", if_true<"fp8">),
      {"communication-dtype", "memory.dtypes.reduce", number_format},
      {"extra-dp-size", "parallelism.shard_size", later},
  };
  return list;
}

const std::vector<Unread>& colossalai_meaningless() {
  static const std::vector<Unread> list = {
      // nvidia-smi, by which the script picks GPUs
      {"query-gpu", "how the script starts"},
      {"format", "how the script starts"},
      {"dataset", why::kData},
      {"tokenizer*", why::kData},
      {"pad-token", why::kData},
      {"padding-mode", why::kData},
      {"save*", why::kCheckpoints},
      {"load-checkpoint", why::kCheckpoints},
      {"tensorboard*", why::kLogging},
      {"config-file", why::kLogging},
      {"num-epochs", why::kLength},
      {"s", why::kLength},
      {"num-steps", why::kLength},
      {"i", why::kLength},
      {"ignore-steps", why::kLength},
      {"lr", why::kLearning},
      {"grad-clip", why::kNorm},
      {"max-norm", why::kNorm},
      {"weight-decay", why::kLearning},
      {"warmup-*", why::kLearning},
      {"freeze-non-embeds-params", why::kLearning},
      {"use-neft", why::kLearning},
      {"skip-save-each-epoch", why::kCheckpoints},
      {"initial-scale", why::kNumerics},
      {"min-scale", why::kNumerics},
      {"growth-*", why::kNumerics},
      {"hysteresis", why::kNumerics},
      {"master-weights", "the preset's formats"},
      {"parallel-output", "the loss is vocabulary-parallel"},
      {"dp-outside", "the preset's order of ranks"},
      {"broadcast-buffers", "models here have no buffers"},
      {"find-unused-parameters", "a bitmap of a few bytes"},
      {"check-reduction", "a check"},
      {"static-graph", why::kSame},
      {"pin-memory", "nothing moves to the host"},
      {"hidden-dim", "part of the search for the chunk size"},
      {"search-range-m", "part of the search for the chunk size"},
      {"profile", why::kProfiling},
      {"nsys", why::kProfiling},
      {"disable-async-reduce", why::kSame},
      {"custom-ckpt", "which layers are recomputed in the example"},
      {"w", why::kLearning},
  };
  return list;
}

const std::vector<Unread>& colossalai_unmodelled() {
  static const std::vector<Unread> list = {
      {"placement-policy", "every chunk is on the GPU"},
      {"shard-param-frac", "parameters are sharded whole"},
      {"warmup-non-model-data-ratio", "every chunk is on the GPU"},
      {"steady-cuda-cap-ratio", "every chunk is on the GPU"},
      {"min-chunk-size-m", why::kUnit},
      {"enable-jit-fused", "element-wise operators are not fused"},
      {"enable-all-optimization", "single optimizations are asked for by their own flags"},
      {"enable-tensor-parallelism", "tp_size states the size"},
      {"fp8-communication", "collectives run in 16 bits"},
      {"use-fp8-comm", "collectives run in 16 bits"},
      {"inner-ring-size", "the ring of keys and values is flat"},
      {"gradient-checkpoint-config*", "memory.recompute states which layers"},
      {"scheduler-nodes", "the schedule's own order"},
      {"max-samples", "packing of sequences"},
  };
  return list;
}

void finish_colossalai(Draft& d) {
  tidy_context(d);
  if (d.value("workload.precision") == nullptr) {
    d.assume(d.defaults(), "workload.precision", scalar("fp16", d.defaults()));  // precision "fp16"
  }
  const std::int64_t stages = d.size("parallelism.pipeline", 1);
  const Setting* batch = d.first({"batch-size", "micro-batch-size"});
  const Setting* micro = d.find("microbatch-size");
  const auto n = batch == nullptr ? std::nullopt : d.integer(batch->name);
  const std::int64_t steps = d.integer("accumulation-steps").value_or(1);
  if (batch == nullptr || !n || *n < 1) {
    if (micro != nullptr) {
      d.set(*micro, "workload.micro_batch", micro->value);
    }
    return;
  }
  // The batch of a data-parallel rank, which a pipeline divides into micro-batches.
  const std::int64_t ranks = d.data_ranks();
  if (ranks > 0) {
    d.set(*batch, "workload.global_batch", product(product(*n, ranks), steps));
  }
  if (stages == 1) {
    d.set(*batch, "workload.micro_batch", *n);
  } else if (micro != nullptr) {
    d.set(*micro, "workload.micro_batch", micro->value);
  } else if (const auto parts = d.integer("num-microbatches"); parts && *parts > 0) {
    d.set(*d.find("num-microbatches"), "workload.micro_batch",
          std::max<std::int64_t>(*n / *parts, 1));
  } else {
    d.set(*batch, "workload.micro_batch", 1);  // microbatch_size 1 of the examples
  }
}

}  // namespace

const Reader& colossalai() {
  static const Reader reader = {
      "colossalai",
      "colossal-ai",
      {&colossalai_rules(), &common_rules(), &launcher_rules()},
      {&colossalai_meaningless(), &launcher_options()},
      {&colossalai_unmodelled()},
      finish_colossalai,
  };
  return reader;
}

}  // namespace stepcast::interop::launch
