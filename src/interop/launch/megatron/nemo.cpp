// A recipe of NeMo 2 (nemo_toolkit 2.4.0, collections/llm/recipes/): its Python file (recipe.h),
// and what overrides it, trainer.strategy.NAME=VALUE of its command line.
#include <fmt/format.h>

#include "../options/launchers.h"
#include "../options/models.h"
#include "../options/rule.h"
#include "../options/why.h"
#include "megatron.h"
#include "readers.h"

namespace stepcast::interop::launch {
namespace {

// "Llama31Config405B", "MixtralConfig8x7B": the family, and the size behind "Config"; two digits
// of a family are a version with a point.
void nemo_model(Draft& d, const Setting& s, std::string_view key) {
  std::string name = plain_text(s.value);
  if (const auto at = name.find("Config"); at != std::string::npos) {
    name.replace(at, 6, "-");
  }
  if (name.starts_with("GPT-")) {  // recipes/gpt3_175b.py: GPTConfig175B
    name.insert(3, "3");
  }
  std::string pointed;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool version =
        i > 0 && name.find('-') > i && std::isdigit(name[i]) != 0 && std::isdigit(name[i - 1]) != 0;
    pointed += version ? "." : "";
    pointed += name[i];
  }
  if (use_model(d, s, pointed) || use_model(d, s, name)) {
    return;
  }
  named_model(d, s, key);
}

// recipes/precision/mixed_precision.py: the function's name, or the class that it configures.
void nemo_precision(Draft& d, const Setting& s, std::string_view key) {
  const std::string name = plain_text(s.value);
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  if (has("MegatronMixedPrecision")) {  // trainer.plugins.precision states it
    d.meaningless(s, "its fields state it");
  } else {
    d.set(s, key,
          has("mxfp8")                                                   ? "mxfp8"
          : has("fp8") && has("subchannel")                              ? "fp8_block"
          : has("fp8") || plain_text(s.value) == "hybrid" || has("e4m3") ? "fp8"
          : has("bf16")                                                  ? "bf16"
          : has("16")                                                    ? "fp16"
                                                                         : "fp32");
    if (has("current_scaling")) {  // 2.4.0 :132, :153, :174
      const int each = has("nemotron_h") ? 2 : 1;
      recipe_bf16_layers(d, s, each, each);
    }
  }
}

void nemo_reduction(Draft& d, const Setting& s, std::string_view) {
  const char* format = is_true(s) ? "fp32" : "bf16";
  d.set(s, "memory.dtypes.gradients", format);
  d.set(s, "memory.dtypes.reduce", format);
}

const std::vector<Rule>& nemo_rules() {
  static const std::vector<Rule> list = {
      {"model.config", "model", nemo_model},
      flag("use-distributed-optimizer", "parallelism.sharding", later),
      {"trainer.plugins", "workload.precision", nemo_precision},
      {"trainer.plugins.precision", "workload.precision", nemo_precision},
      {"trainer.plugins.fp8", "workload.precision", nemo_precision},
      {"trainer.plugins.grad-reduce-in-fp32", "", nemo_reduction},
      // The precision plugin has the last word where it is one (plugins/mixed_precision.py:216).
      {"trainer.strategy.ddp.grad-reduce-in-fp32", "",
       [](Draft& d, const Setting& s, std::string_view key) {
         if (!d.stated("memory.dtypes.gradients")) {
           nemo_reduction(d, s, key);
         }
       }},
      {"cross-entropy-loss-fusion", "kernels.loss", bridge_fused_loss, true, "vocab_parallel"},
      {"cross-entropy-fusion-impl", "kernels.loss", bridge_fused_loss},
      {"virtual-pipeline-model-parallel-size", "parallelism.virtual_pipeline"},
      // Arguments of trainer() where its file is not among the inputs.
      {"trainer.tensor-parallelism", "parallelism.tensor"},
      {"trainer.pipeline-parallelism", "parallelism.pipeline"},
      {"trainer.virtual-pipeline-parallelism", "parallelism.virtual_pipeline"},
      {"trainer.context-parallelism", "parallelism.context.size"},
      {"trainer.expert-parallelism", "parallelism.expert"},
      {"trainer.sequence-parallelism", "parallelism.sequence_parallel"},
  };
  return list;
}

const std::vector<Unread>& nemo_meaningless() {
  static const std::vector<Unread> list = {
      {"model", "model.config states it"},
      {"model.tokenizer*", why::kTokenizer},
      {"data", why::kData},
      {"data.num-*", why::kData},
      {"data.tokenizer*", why::kData},
      {"data.dataset-*", why::kData},
      {"data.paths*", why::kData},
      {"data.split*", why::kData},
      {"average-in-collective", "sums and means cost the same"},
      {"log", why::kLogging},
      {"log.*", why::kLogging},
      {"resume", why::kCheckpoints},
      {"resume.*", why::kCheckpoints},
      {"optim", "the optimizer's settings follow"},
      {"optim.lr-scheduler*", why::kLearning},
      {"optim.max-lr", why::kLearning},
      {"optim.min-lr", why::kLearning},
      {"optim.warmup-*", why::kLearning},
      {"optim.constant-*", why::kLearning},
      {"optim.config", "the optimizer's settings follow"},
      {"trainer", "its settings follow"},
      {"trainer.strategy", "its settings follow"},
      {"trainer.strategy.ddp", "its settings follow"},
      {"trainer.strategy.ckpt*", why::kCheckpoints},
      {"trainer.strategy.gradient-as-bucket-view", "views of the same gradients"},
      {"trainer.strategy.pipeline-dtype", "activations travel in the products' format"},
      {"trainer.accelerator", why::kProcesses},
      {"trainer.devices", why::kProcesses},
      {"trainer.num-gpus-per-node", why::kProcesses},
      {"trainer.pipeline-parallelism-type", "activations travel in the products' format"},
      {"trainer.max-*", why::kLength},
      {"trainer.limit-*", why::kOther},
      {"trainer.log-*", why::kLogging},
      {"trainer.val-*", why::kOther},
      {"trainer.use-distributed-sampler", why::kData},
      {"trainer.accumulate-grad-batches", "micro-batches follow from the batch sizes"},
      {"trainer.plugins.*", "numbers of the same cost"},
      {"peft.alpha", why::kLearning},
      {"tokenizer*", why::kTokenizer},
  };
  return list;
}

const std::vector<Unread>& nemo_unmodelled() {
  static const std::vector<Unread> list = {
      {"trainer.callbacks", "overlap as the system has it"},
      {"trainer.strategy.fsdp*", "replicas keep their parameters"},
      {"trainer.strategy.num-layers-in-*", "parallelism.layers_per_stage states it"},
      {"peft.*", "adapters as PEFT has them"},
      {"data.packed-*", "workload.documents states what fills a sequence"},
  };
  return list;
}

void finish_nemo(Draft& d) {
  d.assume(d.defaults(), "workload.precision", scalar("bf16", d.defaults()));
  // lightning/pytorch/strategies/megatron_strategy.py:452: ddp's follows the optimizer's.
  recipe_distributed_optimizer(d, "optim.config", false);
  finish_megatron_hybrid(d);
  finish_megatron_kernels(d);
  finish_megatron_parallel(d);
  if (d.stated("parallelism.sequence_parallel") &&
      d.text("parallelism.sequence_parallel") != "true") {  // nothing of it is gathered in chunks
    d.assume(d.defaults(), "parallelism.overlap.tensor", scalar("false", d.defaults()));
  }
}

}  // namespace

const Reader& nemo() {
  static const Reader reader = {
      "nemo",
      "nemo",
      {&nemo_rules(), &megatron_peft_rules(), &common_rules(), &megatron_model_rules(),
       &megatron_hybrid_rules(), &megatron_parallel_rules(), &megatron_kernel_rules(),
       &megatron_bf16_layer_rules(), &launcher_rules()},
      {&nemo_meaningless(), &megatron_meaningless(), &launcher_options()},
      {&nemo_unmodelled(), &megatron_unmodelled()},
      finish_nemo,
      true,
      {"*"},
      true,
      "pretrain_recipe",
  };
  return reader;
}

}  // namespace stepcast::interop::launch
