// A Megatron-Bridge recipe: its Python file (recipes/; recipe.h), and what overrides it,
// SECTION.NAME=VALUE of its command line, or the same in YAML (megatron-bridge 0.3.1,
// training/config.py; the names of a section are Megatron-Core's).
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "../options/launchers.h"
#include "../options/models.h"
#include "../options/rule.h"
#include "../options/why.h"
#include "megatron.h"
#include "readers.h"
#include "stepcast/config/config.h"

namespace stepcast::interop::launch {
namespace {

// "llama3_70b_pretrain_config" names the model; its layout has to be stated.
void bridge_recipe(Draft& d, const Setting& s, std::string_view key) {
  std::string name = plain_text(s.value);
  for (const char* kind : {"_pretrain", "_finetune", "_sft", "_peft", "_config"}) {
    if (const auto at = name.find(kind); at != std::string::npos) {
      name.erase(at);
    }
  }
  Setting model = s;
  model.value.scalar = name;
  named_model(d, model, key);
  d.launch().remarks.push_back(
      {s.origin,
       fmt::format("without its Python file only the model of {} is known, and what overrides it",
                   plain_text(s.value))});
}

// training/mixed_precision.py:171 to :406.
void bridge_precision(Draft& d, const Setting& s, std::string_view key) {
  const std::string name = plain_text(s.value);
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  const char* format = has("mxfp8")                         ? "mxfp8"
                       : has("nvfp4")                       ? "nvfp4"
                       : has("subchannel") || has("nanov2") ? "fp8_block"
                       : has("fp8")                         ? "fp8"
                       : has("bf16")                        ? "bf16"
                       : has("fp16")                        ? "fp16"
                                                            : nullptr;
  if (format == nullptr) {
    d.refuse(s, fmt::format("{} is '{}'; expected a name such as bf16_mixed or "
                            "bf16_with_fp8_current_scaling_mixed",
                            s.shown, name));
    return;
  }
  d.set(s, key, format);
  if (has("nvfp4")) {  // 0.6.2: nemotron_3_super_bf16_with_nvfp4_mixed (:419), _ultra (:432)
    if (has("super") || has("ultra")) {
      recipe_bf16_layers(d, s, 0, has("super") ? 14 : 16);
    }
  } else if (has("current_scaling")) {
    const int each = has("nemotron_h") || has("nanov2") ? 2 : 1;
    recipe_bf16_layers(d, s, each, each);
  }
  if (has("nanov2")) {  // the one recipe of blocks whose weights stand in 8 bits (:333)
    d.set(s, "memory.dtypes.parameters", "fp8");
  }
}

// training/mixed_precision.py:120: its grad_reduce_in_fp32 overwrites that of ddp. Recipes train
// with bf16_mixed where they say nothing else (recipes/common.py:130), whose own is True; that of
// the recipes of fp16 is False (:196, :212).
void bridge_gradients(Draft& d) {
  const bool half = d.text("workload.precision") == "fp16";
  const auto format = [&](const Setting& s) {
    return is_true(s) ? "fp32" : half ? "fp16" : "bf16";
  };
  const Setting* precision = d.present("mixed-precision");
  const Setting* own = d.find("mixed-precision.grad-reduce-in-fp32");
  const Setting* of_ddp = d.find("grad-reduce-in-fp32");
  if (precision != nullptr && says_nothing(*precision)) {
    own = of_ddp;
  } else if (of_ddp != nullptr) {
    d.meaningless(*of_ddp, "mixed_precision overwrites it");
  }
  for (const char* key : {"memory.dtypes.gradients", "memory.dtypes.reduce"}) {
    if (own != nullptr) {
      d.set(*own, key, format(*own));
    } else {
      d.assume(d.defaults(), key, scalar(half ? "fp16" : "fp32", d.defaults()));
    }
  }
}

// Whether weights stand in the few bits of their products.
void narrow_weights(Draft& d, std::string_view name, bool narrow, const char* format) {
  const Setting* weights = d.find(name);
  if (weights == nullptr) {
    return;
  }
  if (narrow) {
    d.set(*weights, "memory.dtypes.parameters", is_true(*weights) ? format : "bf16");
  } else {
    d.meaningless(*weights, "products are in another format");
  }
}

// What is set on mixed_precision behind its name: its 8 bits, how they are scaled, and whether
// weights stand in them.
void bridge_narrow(Draft& d) {
  const auto eight = [&] { return d.text("workload.precision").find("fp8") != std::string::npos; };
  const Setting* format = d.present("mixed-precision.fp8");
  const Setting* scaling = d.find("mixed-precision.fp8-recipe");
  if (format != nullptr && says_nothing(*format) && eight()) {
    d.set(*format, "workload.precision", "bf16");
  } else if (format != nullptr && !says_nothing(*format) && !eight()) {
    d.set(*format, "workload.precision", "fp8");
  } else if (format != nullptr) {
    d.meaningless(*format, "mixed_precision's name says it");
  }
  if (scaling != nullptr && eight()) {
    const std::string kind = plain_text(scaling->value);
    d.set(*scaling, "workload.precision",
          kind == "mxfp8"       ? "mxfp8"
          : kind == "blockwise" ? "fp8_block"
                                : "fp8");
  } else if (scaling != nullptr) {
    d.meaningless(*scaling, "products are not in 8 bits");
  }
  narrow_weights(d, "mixed-precision.fp8-param-gather", eight(), "fp8");
  narrow_weights(d, "mixed-precision.fp4-param-gather", d.text("workload.precision") == "nvfp4",
                 "nvfp4");
}

// training/comm_overlap.py:576: what comm_overlap says of data parallelism overwrites ddp's.
void bridge_data_overlap(Draft& d) {
  for (const auto& [name, key] :
       {std::pair{"comm-overlap.overlap-grad-reduce", "parallelism.overlap.grad_reduce"},
        {"comm-overlap.overlap-param-gather", "parallelism.overlap.param_gather"}}) {
    if (const Setting* s = d.find(name)) {
      d.set(*s, key, is_true(*s));
    }
  }
}

// Chunks as lists of layers' names: [["embedding", "decoder"], ["decoder", "loss"]] is Et|tL.
void bridge_layout(Draft& d, const Setting& s, std::string_view key) {
  if (s.value.kind != Value::Kind::sequence) {
    d.set(s, key, s.value);
    return;
  }
  static const std::map<std::string, char, std::less<>> letters = {
      {"embedding", 'E'}, {"decoder", 't'}, {"encoder", 't'}, {"mtp", 'm'}, {"loss", 'L'}};
  std::string layout;
  for (const Value& chunk : s.value.items) {
    layout += &chunk == &s.value.items.front() ? "" : "|";
    if (chunk.kind != Value::Kind::sequence) {
      d.refuse(s, fmt::format("{} has '{}' in place of a chunk; expected a list of layers' names",
                              s.shown, chunk.scalar));
      return;
    }
    for (const Value& layer : chunk.items) {
      const auto letter = letters.find(layer.scalar);
      if (letter == letters.end()) {
        d.refuse(s, fmt::format("{} has a layer '{}'; expected embedding | decoder | mtp | loss",
                                s.shown, layer.scalar));
        return;
      }
      layout += letter->second;
    }
  }
  d.set(s, key, layout);
}

// Every recipe's precision names a scaling of 8-bit products, that of bf16 too, with which the
// optimizer reads fp32 copies of gradients (0.6.2 training/mixed_precision.py:50, :148, fp8_recipe;
// megatron-core 0.19.2, optimizer/optimizer_config.py:404).
void bridge_optimizer(Draft& d, const Setting& s, std::string_view) {
  d.meaningless(s, "beside the recipe's scaling gradients are copied to fp32 all the same");
}

void bridge_settings_follow(Draft& d, const Setting& s, std::string_view) {
  d.meaningless(s, "its settings follow");
}

const std::vector<Rule>& bridge_rules() {
  static const std::vector<Rule> list = {
      {"recipe", "model", bridge_recipe},
      {"model", "model", named_model},
      {"comm-overlap.tp-comm-overlap", "parallelism.overlap.tensor", later},
      {"comm-overlap.overlap-moe-expert-parallel-comm", "parallelism.overlap.expert", yes},
      {"gradient-accumulation-fusion", "system.gradient_accumulation_fusion", yes},
      {"dataset.seq-length", "workload.sequence_length"},
      {"dataset.sequence-length", "workload.sequence_length"},
      {"mixed-precision", "workload.precision", bridge_precision},
      {"mixed-precision.grad-reduce-in-fp32", "", later},
      {"mixed-precision.fp8", "workload.precision", later},
      {"mixed-precision.fp8-recipe", "workload.precision", later},
      {"mixed-precision.fp8-param-gather", "memory.dtypes.parameters", later},
      spelling("mixed-precision.fp8-param", "mixed-precision.fp8-param-gather"),
      {"mixed-precision.fp4-param-gather", "memory.dtypes.parameters", later},
      spelling("mixed-precision.fp4-param", "mixed-precision.fp4-param-gather"),
      {"mixed-precision.fp8-dot-product-attention", "kernels.fp8_attention", yes},
      flag("comm-overlap.defer-embedding-wgrad-compute", "parallelism.deferred_head_wgrad", later),
      {"comm-overlap.wgrad-deferral-limit", "parallelism.deferred_head_wgrad", later},
      {"comm-overlap.overlap-grad-reduce", "parallelism.overlap.grad_reduce", later},
      {"comm-overlap.overlap-param-gather", "parallelism.overlap.param_gather", later},
      {"grad-reduce-in-fp32", "", later},
      {"use-precision-aware-optimizer", "", bridge_optimizer},
      flag("use-distributed-optimizer", "parallelism.sharding", later),
      {"pipeline-model-parallel-layout", "parallelism.layers_per_stage", bridge_layout},
      {"optimizer", "", bridge_settings_follow},
      {"virtual-pipeline-model-parallel-size", "parallelism.virtual_pipeline"},
      {"calculate-per-token-loss", "the loss as the system has it", unmodelled_if_true},
      {"cross-entropy-loss-fusion", "kernels.loss", bridge_fused_loss, true, "vocab_parallel"},
      {"cross-entropy-fusion-impl", "kernels.loss", bridge_fused_loss},
      flag("cpu-offloading", "memory.offload.activations", later),
      {"cpu-offloading-weights", "weights stay on the GPU", unmodelled_if_true},
      spelling("num-moe-experts", "num-experts"),
      {"bucket-size", "system.bucket_elements"},
      {"use-fused-mhc", "system.fused_streams", yes},
      {"comm-overlap.bucket-size", "system.bucket_elements"},
      {"comm-overlap.batch-p2p-comm", "system.batched_p2p", yes},
      {"comm-overlap.overlap-p2p-comm", "parallelism.overlap.pipeline", yes},
  };
  return list;
}

// comm_overlap None overlaps no product; training/comm_overlap.py:443: nor does tp_comm_overlap
// where the sequence is not split.
void bridge_tensor_overlap(Draft& d) {
  constexpr const char* kKey = "parallelism.overlap.tensor";
  const Setting* all = d.present("comm-overlap");
  const Setting* asked = d.find("comm-overlap.tp-comm-overlap");
  const bool split = d.text("parallelism.sequence_parallel") == "true";
  if (asked != nullptr) {
    d.set(*asked, kKey, is_true(*asked) && split);
  } else if (all != nullptr && says_nothing(*all)) {
    d.set(*all, kKey, false);
  } else if (d.stated("parallelism.sequence_parallel") && !split) {
    d.assume(d.defaults(), kKey, scalar("false", d.defaults()));
  }
}

// A model whose card is not named has the tokenizer's words: those of the model whose tokenizer it
// is, where its card is known (0.6.2, training/setup.py:294).
void bridge_vocabulary(Draft& d) {
  if (d.stated("model.vocab") || d.stated("model.use") || !d.request().model.empty()) {
    return;
  }
  const Setting* of_model = d.find("tokenizer.tokenizer-model");
  const auto card =
      of_model == nullptr ? std::nullopt : config::known_model(plain_text(of_model->value));
  const Setting* words = d.find("tokenizer.vocab-size");
  if (card && d.word("tokenizer.tokenizer-type") != "nulltokenizer") {
    d.set(*of_model, "model.vocab", config::model(*card).vocab);
  } else if (words != nullptr) {
    d.set(*words, "model.vocab", words->value);
  }
}

// Layers are offloaded where cpu_offloading says so (megatron-core 0.19.2,
// transformer/transformer_block.py).
void bridge_offload(Draft& d) {
  const Setting* layers = d.find("cpu-offloading-num-layers");
  if (layers != nullptr && !d.on("cpu-offloading")) {
    d.drop("memory.offload.activation_layers");
    d.drop("memory.offload.activations");
    d.meaningless(*layers, "cpu_offloading is off");
  }
}

// Without experts what is set of them says nothing.
void bridge_experts(Draft& d) {
  if (!d.stated("model.use") && d.request().model.empty() && !d.stated("model.moe.experts")) {
    d.drop("model.moe");
  }
}

// A model of the Hub comes with the prediction layers of its config.json, which the plain names of
// configs/models leave out (0.6.2, models/conversion/model_bridge.py:478).
void bridge_prediction(Draft& d) {
  const std::string with = d.text("model.use") + "-mtp";
  const Setting* model = d.first({"model", "recipe"});
  const auto known = config::list("models");
  if (model != nullptr && d.present("mtp-num-layers") == nullptr && !d.overridden("model") &&
      std::find(known.begin(), known.end(), with) != known.end()) {
    d.set(*model, "model.use", std::string_view(with));
  }
}

// A model with compressed attention lies evenly on its stages, the first with a layer more (0.6.2,
// models/deepseek/deepseek_v4_bridge.py:125). Its projections are not recomputed here.
void bridge_compressed(Draft& d) {
  const std::string card = d.text("model.use");
  if (card.empty() || !config::model(card).compressed) {
    return;
  }
  const Setting* size = d.find("pipeline-model-parallel-size");
  const std::int64_t stages = d.size("parallelism.pipeline", 1);
  if (size != nullptr && stages > 1 && !d.stated("parallelism.layers_per_stage") &&
      d.size("parallelism.virtual_pipeline", 1) == 1) {
    const std::int64_t layers = config::model(card).layers;
    std::vector<std::int64_t> each(static_cast<std::size_t>(stages), layers / stages);
    for (std::int64_t i = 0; i < layers % stages; ++i) {
      ++each[static_cast<std::size_t>(i)];
    }
    d.set(*size, "parallelism.layers_per_stage", each);
  }
  const Setting* modules = d.find("recompute-modules");
  const Value* stated = d.value("memory.recompute.modules");
  if (modules == nullptr || stated == nullptr || d.overridden("memory.recompute")) {
    return;
  }
  Value kept = *stated;
  std::erase_if(kept.items, [](const Value& one) { return one.scalar == "mla_up_proj"; });
  if (kept.items.size() < stated->items.size()) {
    d.unmodelled(*modules, "compressed attention keeps what its projections make");
    d.drop("memory.recompute");
    if (kept.items.empty()) {
      d.set(*modules, "memory.recompute", "none");
    } else {
      d.set(*modules, "memory.recompute.modules", kept);
    }
  }
}

void finish_bridge(Draft& d) {
  d.assume(d.defaults(), "workload.precision", scalar("bf16", d.defaults()));  // recipes/common.py
  bridge_vocabulary(d);
  bridge_offload(d);
  bridge_experts(d);
  bridge_gradients(d);
  // 0.6.2 training/config.py:1958: where either is on, both are.
  recipe_distributed_optimizer(d, "optimizer", true);
  finish_megatron_hybrid(d);
  finish_megatron_kernels(d);
  finish_megatron_parallel(d);
  deferred_head(d, "comm-overlap.defer-embedding-wgrad-compute",
                "comm-overlap.wgrad-deferral-limit");
  bridge_prediction(d);
  bridge_compressed(d);
  bridge_narrow(d);
  bridge_data_overlap(d);
  bridge_tensor_overlap(d);
  if (const Setting* s = d.find("expert-tensor-parallel-size")) {
    d.set(*s, "parallelism.expert_tensor", s->value);  // the model's experts are known by its name
  }
}

}  // namespace

const Reader& megatron_bridge() {
  static const Reader reader = {
      "megatron-bridge",
      "megatron-bridge",
      {&bridge_rules(), &megatron_peft_rules(), &common_rules(), &megatron_model_rules(),
       &megatron_hybrid_rules(), &megatron_parallel_rules(), &megatron_kernel_rules(),
       &megatron_bf16_layer_rules(), &launcher_rules()},
      {&bridge_meaningless(), &megatron_meaningless(), &launcher_options()},
      {&bridge_unmodelled(), &megatron_unmodelled()},
      finish_bridge,
      true,
      {"*"},
      true,
      {},
      {{"config-file", of_document}},
  };
  return reader;
}

}  // namespace stepcast::interop::launch
