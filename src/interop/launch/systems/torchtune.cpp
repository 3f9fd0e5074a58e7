// torchtune's YAML and its command line of NAME=VALUE (torchtune 0.6.1, recipes/).
#include <fmt/format.h>

#include "../options/batch.h"
#include "../options/fsdp.h"
#include "../options/launchers.h"
#include "../options/models.h"
#include "../options/offload.h"
#include "../options/optimizers.h"
#include "../options/rule.h"
#include "../options/why.h"
#include "readers.h"

namespace stepcast::interop::launch {
namespace {

// The function of a component: "torchtune.models.llama3_1.lora_llama3_1_8b" is lora_llama3_1_8b.
std::string function_of(const Setting& s) {
  const std::string path = plain_text(s.value);
  return path.substr(path.rfind('.') + 1);
}

// models/llama3_1/_model_builders.py and its like: lora_ has adapters, qlora_ a base in NF4
// besides.
void torchtune_model(Draft& d, const Setting& s, std::string_view) {
  std::string name = function_of(s);
  for (const std::string_view kind : {"qlora_", "lora_"}) {
    if (name.starts_with(kind)) {
      name.erase(0, kind.size());
    }
  }
  for (const std::string& spelling : spellings(name)) {
    if (use_model(d, s, spelling)) {
      return;
    }
  }
  if (d.request().model.empty() && !d.overridden("model")) {
    d.refuse(s, fmt::format("{} '{}' is not a model of configs/models; expected --model NAME, or "
                            "the path of its config.json",
                            s.shown, plain_text(s.value)));
  }
}

void torchtune_dtype(Draft& d, const Setting& s, std::string_view) {
  const std::string type = plain_text(s.value);
  if (type != "bf16" && type != "fp32") {  // full_finetune_distributed.py:131 refuses fp16
    d.refuse(s, fmt::format("{} is '{}'; expected bf16 | fp32", s.shown, type));
    return;
  }
  d.set(s, "workload.precision", type);
  for (const char* key : {"parameters", "gradients", "reduce", "moments"}) {
    d.set(s, fmt::format("memory.dtypes.{}", key), type);
  }
}

void torchtune_optimizer(Draft& d, const Setting& s, std::string_view key) {
  Setting named = s;
  named.value.scalar = function_of(s);
  optimizer_name(d, named, key);
  d.set(s, key, *d.value(key));
}

// modules/loss/: chunks of the sequence, each through the head; else torch's own over all logits.
void torchtune_loss(Draft& d, const Setting& s, std::string_view key) {
  const std::string kind = function_of(s);
  if (kind == "CEWithChunkedOutputLoss") {
    d.set(s, key, "output_chunks");
  } else if (kind == "CrossEntropyLoss") {
    d.set(s, key, "eager");
    // Recipes drop what compile_loss returns, so that only the loss in chunks, which it changes, is
    // compiled (0.6.1 recipes/full_finetune_distributed.py:345, training/_compile.py:76).
    if (const Setting* compile = d.find("compile"); compile != nullptr && is_true(*compile)) {
      d.set(s, "system.compiles_loss", false);
    }
  } else {
    d.unmodelled(s, "one model is trained, and the loss is cross entropy");
  }
}

void torchtune_recompute(Draft& d, const Setting& s, std::string_view key) {
  d.set(s, key, is_true(s) ? "full" : "none");
}

// training/_distributed.py:540, get_shard_conditions: layers named here are units of their own.
void torchtune_ends(Draft& d, const Setting& s, std::string_view key) {
  const std::string names = plain_text(s.value);
  d.set(s, key,
        names.find("tok_embeddings") != std::string::npos &&
            names.find("output") != std::string::npos);
}

void torchtune_quantised(Draft& d, const Setting& s, std::string_view) {
  if (!is_true(s)) {
    d.meaningless(s, "off");
  }
}

const std::vector<Rule>& torchtune_rules() {
  static const std::vector<Rule> list = {
      {"model.-component-", "model", torchtune_model},
      {"tokenizer.max-seq-len", "workload.sequence_length"},
      {"batch-size", "workload.micro_batch", later},
      {"gradient-accumulation-steps", "workload.global_batch", later},
      {"dtype", "workload.precision", torchtune_dtype},
      {"optimizer.-component-", "memory.optimizer", torchtune_optimizer},
      {"optimizer.fused", "system.fused_optimizer"},
      {"optimizer-in-bwd", "memory.optimizer_in_backward", later},
      {"loss.-component-", "kernels.loss", torchtune_loss},
      {"compile", "kernels.compile"},
      {"enable-activation-checkpointing", "memory.recompute", torchtune_recompute},
      {"enable-activation-offloading", "memory.offload.activations", offloaded_if_true},
      {"custom-sharded-layers", "system.wraps_ends", torchtune_ends},
      {"fsdp-cpu-offload", "memory.offload", fsdp_offloaded_if_true},
      {"fsdp-reshard-after-forward", "parallelism.reshard_after_forward"},
      {"tensor-parallel-dim", "parallelism.tensor"},
      {"dataset.packed", "workload.documents states what fills a sequence", unmodelled_if_true},
      {"model.lora-attn-modules", "workload.finetune", later},
      {"model.apply-lora-to-mlp", "workload.finetune", later},
      {"model.apply-lora-to-output", "the output layer has no adapter", unmodelled_if_true},
      {"model.lora-rank", "workload.finetune", later},
      {"model.lora-dropout", "workload.finetune", later},
      {"model.quantize-base", "workload.finetune", torchtune_quantised},
      {"model.use-dora", "adapters have no magnitudes", unmodelled_if_true},
  };
  return list;
}

const std::vector<Unread>& torchtune_meaningless() {
  static const std::vector<Unread> list = {
      {"output-dir", why::kResults},
      {"tokenizer*", why::kTokenizer},
      {"dataset*", why::kData},
      {"collate-fn", why::kData},
      {"shuffle", why::kData},
      {"seed", why::kLearning},
      {"checkpointer*", why::kOrigin},
      {"resume-from-checkpoint", why::kOrigin},
      {"save-adapter-weights-only", why::kOther},
      {"low-cpu-ram", why::kOrigin},
      {"epochs", why::kLength},
      {"max-steps-per-epoch", why::kLength},
      {"optimizer.*", why::kLearning},
      {"lr-scheduler*", why::kLearning},
      {"clip-grad-norm", why::kNorm},
      {"loss*", why::kLearning},
      {"model.lora-alpha", why::kLearning},
      {"device", why::kProcesses},
      {"fsdp.*", "recipes of 0.6.1 do not read it"},
      {"tensor-parallel-plan*", "the plan of the model's kind"},
      {"metric-logger*", why::kLogging},
      {"log-*", why::kLogging},
      {"profiler*", why::kLogging},
      {"cudnn-deterministic-mode", why::kLearning},
      {"enable-async-checkpointing", why::kOther},
      {"config", "its file is read as well, or a recipe of the package"},
  };
  return list;
}

const std::vector<Unread>& torchtune_unmodelled() {
  static const std::vector<Unread> list = {
      {"ac-*", "memory.recompute states what is recomputed"},
      {"memory-efficient-fsdp-wrap", why::kUnit},
      {"quantizer*", "no weight is quantised while it is trained"},
      {"teacher-*", why::kOneModel},
      {"kd-*", why::kOneModel},
      {"ref-*", why::kOneModel},
      {"policy-*", why::kOneModel},
      {"reward-*", why::kOneModel},
      {"value-*", why::kOneModel},
      {"model.*", "the model is as its name says"},
  };
  return list;
}

// Modules with adapters as their names in a job have them.
Value torchtune_targets(const Setting* attention, bool mlp, const Origin& where) {
  std::vector<std::string> out;
  const std::string named = attention != nullptr ? plain_text(attention->value) : "";
  for (const auto& [name, target] :
       {std::pair{"q_proj", "q"}, {"k_proj", "k"}, {"v_proj", "v"}, {"output_proj", "o"}}) {
    if (named.find(name) != std::string::npos) {
      out.emplace_back(target);
    }
  }
  for (const char* target : {"gate", "up", "down"}) {  // w1, w3, w2
    if (mlp) {
      out.emplace_back(target);
    }
  }
  return word_list(out, where);
}

void torchtune_adapters(Draft& d) {
  const Setting* model = d.find("model.-component-");
  const std::string name = model != nullptr ? function_of(*model) : "";
  if (!name.starts_with("lora_") && !name.starts_with("qlora_")) {
    return;
  }
  const Setting* base = d.find("model.quantize-base");
  const bool quantised = name.starts_with("qlora_") || (base != nullptr && is_true(*base));
  const std::string key = quantised ? "workload.finetune.qlora" : "workload.finetune.lora";
  if (base != nullptr && is_true(*base)) {
    d.set(*base, key + ".rank", 8);
  }
  // models/llama3_1/_model_builders.py:88: lora_rank 8.
  const Setting* rank = d.find("model.lora-rank");
  d.set(*model, key + ".rank", scalar("8", model->origin));
  if (rank != nullptr) {
    d.set(*rank, key + ".rank", rank->value);
  }
  const Setting* attention = d.find("model.lora-attn-modules");
  const Setting* mlp = d.find("model.apply-lora-to-mlp");
  const bool in_mlp = mlp != nullptr && is_true(*mlp);
  const Setting& from = attention != nullptr ? *attention : *model;
  const Value targets = torchtune_targets(attention, in_mlp, from.origin);
  if (mlp != nullptr) {
    d.set(*mlp, key + ".targets", targets);
  }
  d.set(from, key + ".targets", targets);
  if (const Setting* dropout = d.find("model.lora-dropout")) {
    d.set(*dropout, key + ".dropout", dropout->value);
  }
}

void torchtune_steps_in_backward(Draft& d, std::int64_t ranks) {
  const Setting* sums = d.find("gradient-accumulation-steps");
  if (const Setting* in_backward = d.find("optimizer-in-bwd")) {
    steps_in_backward(d, *in_backward,
                      ranks == 1 && (sums == nullptr || plain_text(sums->value) == "1"));
  }
}

void finish_torchtune(Draft& d) {
  const std::int64_t ranks = d.ranks();
  torchtune_steps_in_backward(d, ranks);
  if (ranks >
      1) {  // the distributed recipes shard over all data ranks (full_finetune_distributed.py:583)
    d.assume(d.defaults(), "parallelism.sharding", scalar("zero3", d.defaults()));
  }
  // full_finetune_distributed.py:199: without the key nothing is recomputed.
  d.assume(d.defaults(), "memory.recompute", scalar("none", d.defaults()));
  if (d.find("custom-sharded-layers") == nullptr) {
    d.assume(d.defaults(), "system.wraps_ends", scalar("false", d.defaults()));
  }
  torchtune_adapters(d);
  complete_batch(d, d.find("batch-size"), d.find("gradient-accumulation-steps"), nullptr);
}

}  // namespace

const Reader& torchtune() {
  static const Reader reader = {
      "torchtune",
      "torchtune",
      {&torchtune_rules(), &common_rules(), &launcher_rules()},
      {&torchtune_meaningless(), &launcher_options()},
      {&torchtune_unmodelled()},
      finish_torchtune,
      true,
      {},
      false,
      {},
      {{"config", of_document, ".yaml"}},
  };
  return reader;
}

}  // namespace stepcast::interop::launch
