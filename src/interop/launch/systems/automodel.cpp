// NeMo AutoModel's YAML and its command line of --section.name value (nemo-automodel 0.7.0,
// recipes/_typed_config.py, recipes/_dist_utils.py, components/).
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "../options/adapters.h"
#include "../options/batch.h"
#include "../options/launchers.h"
#include "../options/models.h"
#include "../options/offload.h"
#include "../options/optimizers.h"
#include "../options/parallelism.h"
#include "../options/rule.h"
#include "../options/why.h"
#include "readers.h"

namespace stepcast::interop::launch {
namespace {

// The last part of a _target_: "torch.optim.AdamW" is AdamW.
std::string target_of(const Setting& s) {
  const std::string path = plain_text(s.value);
  return path.substr(path.rfind('.') + 1);
}

// A size; "none" leaves it to the others.
void size(Draft& d, const Setting& s, std::string_view key) {
  const std::string text = plain_text(s.value);
  if (text == "none" || text == "None") {
    d.meaningless(s, "not set");
  } else {
    d.set(s, key, s.value);
  }
}

// "torch.bfloat16" or "bf16".
void torch_format(Draft& d, const Setting& s, std::string_view key) {
  Setting named = s;
  named.value.scalar = target_of(s);
  number_format(d, named, key);
}

// The weights' format; "auto" is the checkpoint's, bf16 of the models here.
void dtype(Draft& d, const Setting& s, std::string_view key) {
  if (plain_text(s.value) == "auto") {
    d.meaningless(s, "the checkpoint's format, as the system has it");
  } else {
    torch_format(d, s, key);
  }
}

void strategy(Draft& d, const Setting& s, std::string_view key) {
  const std::string name = plain_text(s.value);
  if (name == "ddp") {
    d.set(s, key, "none");
  } else if (name != "fsdp2") {
    d.refuse(s, fmt::format("{} is '{}'; expected fsdp2 | ddp", s.shown, name));
  }
}

// recipes/_dist_utils.py:51.
void recompute(Draft& d, const Setting& s, std::string_view key) {
  const std::string how = plain_text(s.value);
  if (how == "selective") {
    d.drop(key);
    d.set(s, std::string(key) + ".per_op", "sac");
  } else {
    const bool full = is_true(s) || how == "full" || how == "on" || how == "enabled";
    d.set(s, key, full ? "full" : "none");
  }
}

// transformers' own class of a model, whose norms are several kernels and whose layers are
// checkpointed whole (components/distributed/parallelizer.py:397).
void transformers_own(Draft& d, const Setting& s, std::string_view key) {
  if (is_true(s)) {
    d.set(s, key, "false");
    d.set(s, "system.fused_norm", "false");
  } else {
    d.meaningless(s, "AutoModel's own class of the model, where it has one");
  }
}

// components/distributed/pipelining/config.py:97: names of torch.distributed.pipelining.
void schedule(Draft& d, const Setting& s, std::string_view key) {
  std::string name;
  for (const char c : plain_text(s.value)) {
    name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  for (const auto& [theirs, ours] : {std::pair{"1f1b", "1f1b"},
                                     {"gpipe", "gpipe"},
                                     {"interleaved1f1b", "interleaved_1f1b"},
                                     {"loopedbfs", "looped_bfs"},
                                     {"interleavedzerobubble", "interleaved_zb"},
                                     {"zbvzerobubble", "zb_v"},
                                     {"dualpipev", "dualpipe_v"}}) {
    if (name == theirs) {
      d.set(s, key, ours);
      return;
    }
  }
  d.refuse(s, fmt::format("{} is '{}'; expected 1f1b | gpipe | interleaved1f1b | loopedbfs | "
                          "interleavedzerobubble | zbvzerobubble | dualpipev",
                          s.shown, plain_text(s.value)));
}

// components/models/common/utils.py:420.
void attention(Draft& d, const Setting& s, std::string_view key) {
  const std::string name = plain_text(s.value);
  if (name == "te" || name == "cudnn") {
    d.set(s, key, "cudnn");
  } else if (name == "eager" || name == "torch") {
    d.set(s, key, "unfused");
  } else if (name == "sdpa") {
    d.set(s, key, "flash2");
  } else if (name == "flex" || name == "tilelang" || name == "fa4" || name == "magi") {
    d.set(s, key, "flash2");
    d.launch().remarks.push_back(
        {s.origin, fmt::format("attention by {} is forecast as FlashAttention-2", name)});
  } else {
    d.refuse(s, fmt::format("{} is '{}'; expected te | cudnn | sdpa | flex | eager | torch | "
                            "tilelang | fa4 | magi",
                            s.shown, name));
  }
}

// components/models/common/utils.py:451 and :457: "torch" gathers tokens and reduces what experts
// give.
void dispatcher(Draft& d, const Setting& s, std::string_view key) {
  const std::string name = plain_text(s.value);
  if (name == "torch") {
    d.set(s, key, "allgather");
  } else if (name == "deepep" || name == "hybridep") {
    d.set(s, key, std::string_view(name));
  } else if (name == "uccl_ep" || name == "mok") {
    d.set(s, key, "deepep");
    d.launch().remarks.push_back(
        {s.origin, fmt::format("the dispatcher {} is forecast as DeepEP", name)});
  } else {
    d.refuse(s, fmt::format("{} is '{}'; expected torch | deepep | hybridep | uccl_ep | mok",
                            s.shown, name));
  }
}

// components/loss: over whole logits, over parts of the vocabulary, or in the head's own kernel.
void loss(Draft& d, const Setting& s, std::string_view key) {
  const std::string name = target_of(s);
  if (name.find("FusedLinear") != std::string::npos || name.find("Chunked") != std::string::npos) {
    d.set(s, key, "chunked");
  } else if (name.find("TEParallel") != std::string::npos) {
    d.set(s, key, "fused");
  } else if (name == "MaskedCrossEntropy") {
    d.set(s, key, "eager");
  } else {
    d.unmodelled(s, "the loss is cross entropy");
  }
}

void optimizer(Draft& d, const Setting& s, std::string_view key) {
  Setting named = s;
  named.value.scalar = target_of(s);
  optimizer_name(d, named, key);
  if (const Value* value = d.value(key)) {
    d.set(s, key, *value);
  }
}

// components/quantization/fp8.py:28.
void narrow(Draft& d) {
  const Setting* on = d.find("fp8.enabled");
  if (on == nullptr || !is_true(*on)) {
    return;
  }
  const Setting* recipe = d.find("fp8.recipe-name");
  const bool rows = recipe != nullptr && plain_text(recipe->value).starts_with("rowwise");
  d.set(rows ? *recipe : *on, "workload.precision", rows ? "fp8_block" : "fp8");
  const Setting* gathers = d.find("fp8.enable-fsdp-float8-all-gather");
  const Setting* ahead = d.find("fp8.precompute-float8-dynamic-scale-for-fsdp");
  if (gathers != nullptr && is_true(*gathers)) {
    d.set(*gathers, "parallelism.float8_all_gather",
          ahead != nullptr && is_true(*ahead) ? "precomputed" : "dynamic");
  }
}

// components/_peft/lora.py, PeftConfig: rank 8, and all products of a layer, unless stated.
void adapters(Draft& d) {
  const Setting* peft =
      d.first({"peft.-target-", "peft.target-modules", "peft.dim", "peft.match-all-linear"});
  if (peft != nullptr) {
    set_adapters(d, {.asked = peft,
                     .rank = d.find("peft.dim"),
                     .targets = d.find("peft.target-modules"),
                     .dropout = d.find("peft.dropout"),
                     .usual_rank = "8",
                     .usual_targets = "all"});
  }
}

// The longest sequences that reach the model: packed, or as the dataset cuts them.
void sequence(Draft& d) {
  const Setting* packed = d.find("packed-sequence.packed-sequence-size");
  if (packed != nullptr && d.integer(packed->name).value_or(0) > 0) {
    d.set(*packed, "workload.sequence_length", packed->value);
    return;
  }
  for (const char* name :
       {"dataset.seq-len", "dataset.seq-length", "dataset.max-length", "dataset.max-seq-length"}) {
    if (const Setting* s = d.find(name)) {
      d.set(*s, "workload.sequence_length", s->value);
    }
  }
}

void finish_automodel(Draft& d) {
  d.assume(d.defaults(), "parallelism.sharding", scalar("zero3", d.defaults()));
  const Setting* replicas = d.find("distributed.dp-replicate-size");
  if (replicas != nullptr && plain_text(replicas->value) != "none") {
    hybrid_sharding(d, replicas, nullptr);
  }
  sequence(d);
  complete_batch(d, d.find("step-scheduler.local-batch-size"), nullptr,
                 d.find("step-scheduler.global-batch-size"));
  if (const Setting* s = d.find("distributed.pipeline.pp-microbatch-size");
      s != nullptr && d.size("parallelism.pipeline", 1) > 1) {
    d.set(*s, "workload.micro_batch", s->value);
  }
  if (const Setting* s = d.find("distributed.defer-fsdp-grad-sync")) {
    d.set(*s, "parallelism.accumulation.reduce", is_true(*s) ? "last" : "each");
  }
  // FSDP2 compiles where distributed.enable_compile says so (_transformers/infrastructure.py:714).
  const Setting* strategy = d.find("distributed.strategy");
  if (const Setting* s = d.find("compile.enabled");
      s != nullptr && strategy != nullptr && plain_text(strategy->value) == "ddp") {
    d.set(*s, "kernels.compile", is_true(*s));
    d.set(*s, "system.compile_scope", "model");
  }
  narrow(d);
  adapters(d);
  tidy_context(d);
}

const std::vector<Rule>& automodel_rules() {
  static const std::vector<Rule> list = {
      {"model.pretrained-model-name-or-path", "model", named_model},
      {"model.config.pretrained-model-name-or-path", "model", named_model},
      {"model.config", "model", named_model},
      {"model.force-hf", "system.checkpoints_blocks", transformers_own},
      {"model.torch-dtype", "memory.dtypes.parameters", dtype},
      {"model.backend.attn", "kernels.attention", attention},
      {"model.backend.dispatcher", "moe.dispatcher", dispatcher},
      {"distributed.strategy", "parallelism.sharding", strategy},
      {"distributed.dp-size", "parallelism.data", size},
      {"distributed.dp-replicate-size", "parallelism.shard_size", later},
      {"distributed.tp-size", "parallelism.tensor", size},
      {"distributed.cp-size", "parallelism.context.size", size},
      {"distributed.pp-size", "parallelism.pipeline", size},
      {"distributed.ep-size", "parallelism.expert", size},
      {"distributed.sequence-parallel", "parallelism.sequence_parallel", yes},
      {"distributed.activation-checkpointing", "memory.recompute", recompute},
      {"distributed.reshard-after-forward", "parallelism.reshard_after_forward", yes},
      {"distributed.enable-async-tensor-parallel", "parallelism.overlap.tensor", if_true<"async">},
      {"distributed.enable-compile", "kernels.compile", yes},
      {"distributed.offload-policy.-target-", "memory.offload", fsdp_offloaded_if_true},
      flag("distributed.defer-fsdp-grad-sync", "parallelism.accumulation", later),
      {"distributed.pipeline.pp-schedule", "parallelism.schedule", schedule},
      {"distributed.pipeline.pp-microbatch-size", "workload.micro_batch", later},
      {"step-scheduler.global-batch-size", "workload.global_batch", later},
      {"step-scheduler.local-batch-size", "workload.micro_batch", later},
      {"packed-sequence.packed-sequence-size", "workload.sequence_length", later},
      {"dataset.seq-len", "workload.sequence_length", later},
      {"dataset.seq-length", "workload.sequence_length", later},
      {"dataset.max-length", "workload.sequence_length", later},
      {"dataset.max-seq-length", "workload.sequence_length", later},
      {"optimizer.-target-", "memory.optimizer", optimizer},
      {"optimizer.master-weights", "memory.dtypes.master", if_true<"fp32">},
      {"optimizer.exp-avg-dtype", "memory.dtypes.moments", torch_format},
      {"optimizer.exp-avg-sq-dtype", "memory.dtypes.moments", torch_format},
      {"loss-fn.-target-", "kernels.loss", loss},
      flag("compile.enabled", "kernels.compile", later),
      flag("fp8.enabled", "workload.precision", later),
      {"fp8.recipe-name", "workload.precision", later},
      flag("fp8.enable-fsdp-float8-all-gather", "parallelism.float8_all_gather", later),
      flag("fp8.precompute-float8-dynamic-scale-for-fsdp", "parallelism.float8_all_gather", later),
      {"peft.-target-", "workload.finetune", later},
      {"peft.dim", "workload.finetune", later},
      {"peft.dropout", "workload.finetune", later},
      {"peft.target-modules", "workload.finetune", later},
      flag("peft.match-all-linear", "workload.finetune", later),
  };
  return list;
}

const std::vector<Unread>& automodel_meaningless() {
  static const std::vector<Unread> list = {
      {"recipe", "one step of training"},
      {"seed", why::kLearning},
      {"model.-target-", "its name says what the model is"},
      {"model.config.-target-", "its name says what the model is"},
      {"model.trust-remote-code", why::kOrigin},
      {"model.config.*", why::kOrigin},
      {"model.is-hf-inference", why::kOrigin},
      {"model.load-base-model", why::kLoading},
      {"model.use-liger-kernel", why::kSame},
      {"model.backend.-target-", "its parts follow"},
      {"model.backend.fake-balanced-gate", "tokens are spread evenly"},
      {"model.backend.fake-gate-noise", "tokens are spread evenly"},
      {"model.backend.enable-hf-state-dict-adapter", why::kLoading},
      {"model.backend.gate-precision", why::kNumerics},
      {"distributed.-target-", "FSDP2, as the system has it"},
      {"distributed.pipeline.-target-", "its parts follow"},
      {"distributed.pipeline.pp-batch-size", "the local batch"},
      {"distributed.moe.-target-", "its parts follow"},
      {"dist-env.*", why::kProcesses},
      {"rng.*", why::kLearning},
      {"step-scheduler.*", why::kLength},
      {"lr-scheduler.*", why::kLearning},
      {"optimizer.lr", why::kLearning},
      {"optimizer.betas", why::kLearning},
      {"optimizer.eps", why::kLearning},
      {"optimizer.weight-decay", why::kLearning},
      {"optimizer.adam-w-mode", why::kLearning},
      {"optimizer.bias-correction", why::kLearning},
      {"loss-fn.*", why::kNumerics},
      {"checkpoint.*", why::kCheckpoints},
      {"dataset.*", why::kData},
      {"dataloader.*", why::kData},
      {"packed-sequence.*", why::kData},
      {"validation-*", why::kEvaluation},
      {"tokenizer.*", why::kTokenizer},
      {"wandb.*", why::kLogging},
      {"mlflow.*", why::kLogging},
      {"comet.*", why::kLogging},
      {"benchmark.*", "how the benchmark is timed"},
      {"slurm.*", why::kProcesses},
      {"nsys.*", why::kProfiling},
      {"peft.*", why::kNumerics},
      {"fp8.*", why::kNumerics},
      {"clip-grad-norm.*", why::kNorm},
      {"max-grad-norm", why::kNorm},
      {"ci.*", why::kOther},
  };
  return list;
}

const std::vector<Unread>& automodel_unmodelled() {
  static const std::vector<Unread> list = {
      {"optimizer.*", "the optimizer's states as the system has them"},
      {"model.backend.*", "kernels as the system has them"},
      {"distributed.pipeline.*", "stages as the system lays them out"},
      {"distributed.*", "FSDP2, as the system has it"},
      {"compile.*", "torch.compile's own options"},
      {"freeze-config.*", "every parameter trains, or adapters alone"},
      {"quantization.*", "weights stand as dtypes say"},
      {"domain-mixture.*", why::kData},
  };
  return list;
}

}  // namespace

const Reader& automodel() {
  static const Reader reader = {
      "nemo-automodel",
      "nemo-automodel",
      {&automodel_rules(), &common_rules(), &launcher_rules()},
      {&automodel_meaningless(), &launcher_options()},
      {&automodel_unmodelled()},
      finish_automodel,
  };
  return reader;
}

}  // namespace stepcast::interop::launch
