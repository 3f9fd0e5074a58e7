// Megatron-LM's flags of parallelism, batch and communication.
#include <fmt/format.h>

#include "../options/batch.h"
#include "../options/parallelism.h"
#include "../options/rule.h"
#include "../options/sizes.h"
#include "megatron.h"
#include "stepcast/config/config.h"

namespace stepcast::interop::launch {
namespace {

void expect_words(Draft& d, const Setting& s, std::string_view expected) {
  d.refuse(s, fmt::format("{} is '{}'; expected {}", s.shown, plain_text(s.value), expected));
}

void megatron_context_kind(Draft& d, const Setting& s, std::string_view key) {
  // One word, or one for each layer, of which the first is used for all.
  std::string kind = plain_text(s.value);
  kind = kind.substr(0, kind.find(' '));
  if (kind == "p2p" || kind == "a2a" || kind == "all_gather") {
    d.set(s, key, std::string_view(kind));
  } else if (kind == "allgather") {
    d.set(s, key, "all_gather");
  } else if (kind == "a2a+p2p") {
    d.set(s, key, "hierarchical");
  } else {
    expect_words(d, s, "p2p | all_gather | a2a | a2a+p2p");
  }
}

void context_inner(Draft& d, const Setting& s, std::string_view key) {
  const Value& first = s.value.items.empty() ? s.value : s.value.items.front();
  d.set(s, key, first);
}

void dispatcher(Draft& d, const Setting& s, std::string_view key) {
  const std::string kind = plain_text(s.value);
  if (kind == "allgather" || kind == "alltoall") {
    d.set(s, key, std::string_view(kind));
  } else if (kind == "alltoall_seq") {
    d.set(s, key, "alltoall");
  } else if (kind == "flex") {
    // --moe-flex-dispatcher-backend, by default deepep.
    const std::string backend = d.word("moe-flex-dispatcher-backend");
    d.set(s, key, backend == "hybridep" ? "hybridep" : "deepep");
  } else {
    expect_words(d, s, "allgather | alltoall | flex");
  }
}

void capacity(Draft& d, const Setting& s, std::string_view key) {
  if (plain_text(s.value) != "-1" && plain_text(s.value) != "None") {
    d.set(s, key, s.value);
  }
}

void group(Draft& d, const Setting& s, std::string_view) {
  d.set(s, "parallelism.schedule", "interleaved_1f1b");
  d.set(s, "parallelism.schedule.group", s.value);
}

void megatron_chunks(Draft& d) {
  const std::int64_t stages = d.size("parallelism.pipeline", 1);
  if (const Setting* s = d.find("num-virtual-stages-per-pipeline-rank")) {
    d.set(*s, "parallelism.virtual_pipeline", s->value);
  }
  const Setting* s = d.find("num-layers-per-virtual-pipeline-stage");
  const auto per_chunk = d.integer("num-layers-per-virtual-pipeline-stage");
  const std::int64_t layers = d.size("model.layers", 0);
  if (s == nullptr || !per_chunk || layers == 0) {
    return;
  }
  if (*per_chunk < 1 || layers % product(stages, *per_chunk) != 0) {
    d.refuse(*s, fmt::format("{} layers do not divide into {} stages with chunks of {} {}; "
                             "expected a divisor",
                             layers, stages, s->shown, *per_chunk));
    return;
  }
  d.set(*s, "parallelism.virtual_pipeline", layers / stages / *per_chunk);
}

// --decoder-first-pipeline-num-layers and -last-: the stages between them get equal numbers of the
// remaining layers.
void uneven(Draft& d) {
  const Setting* first = d.find("decoder-first-pipeline-num-layers");
  const Setting* last = d.find("decoder-last-pipeline-num-layers");
  if (first == nullptr && last == nullptr) {
    return;
  }
  const Setting& at = first != nullptr ? *first : *last;
  const std::int64_t stages = d.size("parallelism.pipeline", 1);
  const std::string model = d.request().model.empty() ? d.text("model.use") : d.request().model;
  const std::int64_t layers =
      d.size("model.layers", model.empty() ? 0 : config::model(model).layers);
  const auto count = [&](const Setting* s) {
    return s == nullptr ? std::nullopt : d.integer(s->name);
  };
  const auto head = count(first);
  const auto tail = count(last);
  const std::int64_t between = stages - (first != nullptr ? 1 : 0) - (last != nullptr ? 1 : 0);
  const std::int64_t rest = layers - head.value_or(0) - tail.value_or(0);
  if (layers == 0) {
    d.refuse(at, fmt::format("{} needs --num-layers; expected both", at.shown));
    return;
  }
  if (layers < stages - 2) {  // the first and the last may have none
    d.refuse(at, fmt::format("{} layers do not fill {} stages; expected at most {}", layers, stages,
                             layers));
    return;
  }
  if (stages < 2 || rest < 0 || (between > 0 ? rest % between != 0 : rest != 0)) {
    d.refuse(at, fmt::format("{} of {} layers are left for {} stages between; expected a multiple",
                             rest, layers, between));
    return;
  }
  std::vector<std::int64_t> out;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    out.push_back(stage == 0 && head            ? *head
                  : stage == stages - 1 && tail ? *tail
                                                : rest / between);
  }
  d.set(at, "parallelism.layers_per_stage", out);
}

constexpr const char* kMainParameters = "megatron-fsdp-main-params-dtype";
constexpr const char* kMainGradients = "megatron-fsdp-main-grads-dtype";
constexpr const char* kReduction = "megatron-fsdp-grad-comm-dtype";

// Sets `key` to the format that an option names, or to `automatic`.
void fsdp_format(Draft& d, const char* name, std::string_view key, const std::string& automatic) {
  const Setting* s = d.find(name);
  if (s == nullptr) {
    return;
  }
  const std::string kind = plain_text(s->value);
  if (kind == "fp32" || kind == "bf16" || kind == "fp16") {
    d.set(*s, key, std::string_view(kind));
  } else if (kind == "auto") {
    d.set(*s, key, std::string_view(automatic));
  } else {
    expect_words(d, *s, "fp32 | bf16 | fp16 | auto");
  }
}

// "auto" is the format of the parameters for gradients, and that of the gradients for their
// reduction, which is the default as well; master weights are then the parameters themselves
// (megatron-core 0.19.2, training/arguments.py:3520 to 3532).
void fsdp_formats(Draft& d) {
  fsdp_format(d, kMainParameters, "memory.dtypes.master", "null");
  fsdp_format(d, kMainGradients, "memory.dtypes.gradients",
              d.on("fp16")   ? "fp16"
              : d.on("bf16") ? "bf16"
                             : "fp32");
  const std::string gradients = d.text("memory.dtypes.gradients");
  if (const Setting* s = d.find(kMainGradients); s != nullptr && d.find(kReduction) == nullptr) {
    d.set(*s, "memory.dtypes.reduce", std::string_view(gradients));
  }
  fsdp_format(d, kReduction, "memory.dtypes.reduce", gradients.empty() ? "bf16" : gradients);
}

// User buffers of NCCL are double buffers (megatron-core 0.19.2, training/arguments.py:1149 to
// 1158).
void fsdp_double_buffers(Draft& d) {
  for (const char* name :
       {"fsdp-double-buffer", "megatron-fsdp-max-pool-double-buffer", "use-nccl-ub"}) {
    if (const Setting* s = d.present(name); s != nullptr && d.on(name)) {
      d.set(*s, "system.double_buffers", true);
    }
  }
}

void megatron_fsdp(Draft& d) {
  if (!d.on("use-megatron-fsdp") && !d.on("use-custom-fsdp")) {
    if (d.on("use-nccl-ub")) {
      d.unmodelled(*d.present("use-nccl-ub"), "NCCL's user buffers are priced like other buffers");
    }
    for (const char* name :
         {kMainParameters, kMainGradients, kReduction, "fsdp-double-buffer",
          "megatron-fsdp-max-pool-double-buffer", "suggested-communication-unit-size"}) {
      if (const Setting* s = d.present(name)) {
        d.meaningless(*s, "it is Megatron-FSDP's, which is not asked for");
      }
    }
    return;
  }
  const Setting* named = d.on("use-megatron-fsdp") ? d.present("use-megatron-fsdp") : nullptr;
  const Setting& flag = named != nullptr ? *named : *d.present("use-custom-fsdp");
  if (d.preset == "megatron-lm") {
    d.preset = "megatron-fsdp";
  } else {
    d.set(flag, "system.unit_buffers", true);
  }
  fsdp_double_buffers(d);
  fsdp_formats(d);
  if (const Setting* unit = d.find("suggested-communication-unit-size")) {
    d.set(*unit, "system.unit_buffer_elements", unit->value);
  }
  const Setting* s = d.find("data-parallel-sharding-strategy");
  // megatron-core 0.19.2, training/arguments.py:3023; megatron-bridge 0.6.2, recipes/common.py.
  const char* unstated = named != nullptr ? "optim_grads_params" : "no_shard";
  const std::string kind = s == nullptr ? unstated : plain_text(s->value);
  const Setting& from = s == nullptr ? flag : *s;
  if (kind == "optim_grads_params") {
    d.set(from, "parallelism.sharding", "zero3");
  } else if (kind == "optim_grads") {
    d.set(from, "parallelism.sharding", "zero2");
  } else if (kind == "optim") {
    d.set(from, "parallelism.sharding", "zero1");
  } else if (kind == "no_shard") {
    d.set(from, "parallelism.sharding", "none");
  } else {
    expect_words(d, from, "no_shard | optim | optim_grads | optim_grads_params");
  }
}

void instances(Draft& d) {
  const Setting* s = d.find("num-distributed-optimizer-instances");
  const auto n = d.integer("num-distributed-optimizer-instances");
  const std::int64_t ranks = d.data_ranks();
  if (s == nullptr || !n || *n <= 1 || ranks == 0) {
    return;
  }
  if (ranks % *n != 0) {
    d.refuse(*s, fmt::format("{} {} does not divide {} data-parallel ranks; expected a divisor",
                             s->shown, *n, ranks));
  } else {
    d.set(*s, "parallelism.shard_size", ranks / *n);
  }
}

}  // namespace

// megatron-core 0.16.0, model_parallel_config.py:322 to 330: without a limit, of all micro-batches.
void deferred_head(Draft& d, std::string_view waits, std::string_view limit) {
  constexpr const char* kKey = "parallelism.deferred_head_wgrad";
  const Setting* flag = d.find(waits);
  const Setting* most = d.find(limit);
  if (flag == nullptr || !is_true(*flag)) {
    if (most != nullptr) {
      d.meaningless(*most, "no weight gradient waits");
    }
    return;
  }
  if (const auto n = d.integer(limit); most != nullptr && n && *n > 0) {
    d.set(*most, kKey, *n);
  } else {
    d.set(*flag, kKey, "all");
  }
}

void recipe_distributed_optimizer(Draft& d, std::string_view optimizer, bool either) {
  const Setting* of_ddp = nullptr;
  const Setting* of_optimizer = nullptr;
  for (const Setting& s : d.settings()) {
    if (s.name == "use-distributed-optimizer" && !says_nothing(s)) {
      of_ddp = s.section.empty() || s.section.ends_with("ddp") ? &s : of_ddp;
      of_optimizer = s.section.empty() || s.section == optimizer ? &s : of_optimizer;
    }
  }
  const auto off = [](const Setting* s) { return s != nullptr && !is_true(*s); };
  const bool none = off(of_optimizer) && (!either || off(of_ddp));
  for (const Setting* s : {of_ddp, of_optimizer}) {
    if (s != nullptr && none) {
      d.set(*s, "parallelism.sharding", "none");
    } else if (s != nullptr && !off(s)) {
      d.set(*s, "parallelism.sharding", "zero1");
    } else if (off(s)) {
      d.meaningless(*s, "the other of optimizer and ddp switches it on");
      d.launch().remarks.push_back(
          {s->origin, fmt::format("{} alone does not switch it off: {}.use_distributed_optimizer, "
                                  "which recipes have on, has to be false as well",
                                  s->shown, s == of_ddp ? optimizer : "ddp")});
    }
  }
}

const std::vector<Rule>& megatron_parallel_rules() {
  static const std::vector<Rule> rules = {
      {"micro-batch-size", "workload.micro_batch"},
      spelling("batch-size", "micro-batch-size"),
      {"global-batch-size", "workload.global_batch"},
      {"tensor-model-parallel-size", "parallelism.tensor"},
      spelling("model-parallel-size", "tensor-model-parallel-size"),
      {"pipeline-model-parallel-size", "parallelism.pipeline"},
      {"num-layers-per-virtual-pipeline-stage", "parallelism.virtual_pipeline", later},
      {"num-virtual-stages-per-pipeline-rank", "parallelism.virtual_pipeline", later},
      {"microbatch-group-size-per-virtual-pipeline-stage", "", group},
      {"decoder-first-pipeline-num-layers", "parallelism.layers_per_stage", later},
      {"decoder-last-pipeline-num-layers", "parallelism.layers_per_stage", later},
      // Names of Megatron-Core's configuration, which Megatron-Bridge and NeMo set.
      spelling("num-layers-in-first-pipeline-stage", "decoder-first-pipeline-num-layers"),
      spelling("num-layers-in-last-pipeline-stage", "decoder-last-pipeline-num-layers"),
      spelling("microbatch-group-size-per-vp-stage",
               "microbatch-group-size-per-virtual-pipeline-stage"),
      flag("defer-embedding-wgrad-compute", "parallelism.deferred_head_wgrad", later),
      {"wgrad-deferral-limit", "parallelism.deferred_head_wgrad", later},
      {"account-for-embedding-in-pipeline-split", "parallelism.embedding_as_layer", yes},
      {"account-for-loss-in-pipeline-split", "parallelism.loss_as_layer", yes},
      {"pipeline-model-parallel-layout", "parallelism.layers_per_stage"},
      {"context-parallel-size", "parallelism.context.size"},
      {"cp-comm-type", "parallelism.context.kind", megatron_context_kind},
      {"hierarchical-context-parallel-sizes", "parallelism.context.inner", context_inner},
      {"ds-sequence-parallel-size", "parallelism.context.size", ulysses},
      {"expert-model-parallel-size", "parallelism.expert"},
      {"expert-tensor-parallel-size", "parallelism.expert_tensor"},
      {"sequence-parallel", "parallelism.sequence_parallel", yes},
      {"use-distributed-optimizer", "parallelism.sharding", if_true<"zero1">, true, "none"},
      flag("use-torch-fsdp2", "parallelism.sharding", if_true<"zero3">),
      flag("use-megatron-fsdp"),
      flag("use-custom-fsdp"),
      {"data-parallel-sharding-strategy", "parallelism.sharding", later},
      {"num-distributed-optimizer-instances", "parallelism.shard_size", later},
      {"suggested-communication-unit-size", "system.unit_buffer_elements", later},
      flag("fsdp-double-buffer", "system.double_buffers", later),
      flag("use-nccl-ub", "system.double_buffers", later),
      spelling("nccl-ub", "use-nccl-ub"),
      flag("megatron-fsdp-max-pool-double-buffer", "system.double_buffers", later),
      {kMainParameters, "memory.dtypes.master", later},
      {kMainGradients, "memory.dtypes.gradients", later},
      {kReduction, "memory.dtypes.reduce", later},
      {"overlap-grad-reduce", "parallelism.overlap.grad_reduce", yes},
      {"overlap-param-gather", "parallelism.overlap.param_gather", yes},
      {"tp-comm-overlap", "parallelism.overlap.tensor", if_true<"ring">, true, "false"},
      {"no-overlap-p2p-communication", "parallelism.overlap.pipeline", no},
      {"overlap-p2p-communication", "parallelism.overlap.pipeline", yes},
      {"overlap-moe-expert-parallel-comm", "parallelism.overlap.expert", yes},
      {"moe-shared-expert-overlap", "parallelism.overlap.shared_expert", yes},
      {"moe-token-dispatcher-type", "moe.dispatcher", dispatcher},
      {"moe-grouped-gemm", "moe.grouped", yes},
      {"moe-permute-fusion", "moe.fused_permute", yes},
      {"moe-use-legacy-grouped-gemm", "moe.grouped", yes},
      {"moe-flex-dispatcher-backend", "moe.dispatcher", later},
      flag("moe-enable-deepep"),
      {"moe-expert-capacity-factor", "moe.capacity_factor", capacity},
      {"moe-pad-expert-input-to-capacity", "moe.pad_to_capacity", yes},
      {"ddp-bucket-size", "system.bucket_elements"},
      {"no-async-tensor-model-parallel-allreduce", "system.async_tensor_backward", no},
      {"no-scatter-gather-tensors-in-pipeline", "system.scatter_gather_p2p", no},
  };
  return rules;
}

void finish_megatron_parallel(Draft& d) {
  const Origin start = d.defaults();
  tidy_context(d);
  if (!d.stated("model.moe")) {
    d.drop("parallelism.expert_tensor");
  }
  megatron_fsdp(d);
  megatron_chunks(d);
  uneven(d);
  instances(d);
  deferred_head(d, "defer-embedding-wgrad-compute", "wgrad-deferral-limit");
  d.assume(start, "workload.micro_batch", scalar("1", start));
  if (!d.stated("workload.global_batch")) {
    complete_batch(d, d.find("micro-batch-size"), nullptr, nullptr);
  }
}

}  // namespace stepcast::interop::launch
