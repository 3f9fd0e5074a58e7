// Megatron-LM's flags of number formats, kernels and optimizer, and the rules of graphs and
// recomputation, which megatron_graphs.cpp and megatron_recompute.cpp read.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "../options/optimizers.h"
#include "../options/rule.h"
#include "megatron.h"

namespace stepcast::interop::launch {
namespace {

void megatron_attention(Draft& d, const Setting& s, std::string_view key) {
  std::string kind = plain_text(s.value);
  kind = kind.substr(kind.rfind('.') == std::string::npos ? 0 : kind.rfind('.') + 1);
  if (kind == "flash") {
    d.set(s, key, "flash2");
  } else if (kind == "fused") {
    d.set(s, key, "cudnn");
  } else if (kind == "unfused" || kind == "local") {
    d.set(s, key, "unfused");
  } else if (kind != "auto") {  // auto: Transformer Engine chooses the kernel, as in the preset
    d.refuse(s, fmt::format("{} is '{}'; expected auto | flash | fused | unfused | local", s.shown,
                            kind));
  }
}

void megatron_implementation(Draft& d, const Setting& s, std::string_view key) {
  d.set(s, key, plain_text(s.value) == "transformer_engine");
}

constexpr const char* kLossFusion = "cross-entropy-loss-fusion";
constexpr const char* kFusedLoss = "cross-entropy-fusion-impl";

// megatron-core 0.16.1, model_parallel_config.py: cross_entropy_fusion_impl = 'native', the only
// one up to 0.11.
void fused_loss(Draft& d, const Setting& s, std::string_view key) {
  if (is_true(s)) {
    const Setting* kernel = d.find(kFusedLoss);
    d.set(
        s, key,
        kernel != nullptr && plain_text(kernel->value) == "te" ? "fused" : "vocab_parallel_fused");
  }
}

void loss_kernel(Draft& d, const Setting& s, std::string_view) {
  const Setting* fuses = d.find(kLossFusion);
  if (fuses == nullptr || !is_true(*fuses)) {
    d.meaningless(s, "the loss is not fused");
  }
}

void fp32_gradients(Draft& d, const Setting& s, std::string_view) {
  d.set(s, "memory.dtypes.gradients", "fp32");
  d.set(s, "memory.dtypes.reduce", "fp32");
}

void bf16_gradients(Draft& d, const Setting& s, std::string_view) {
  d.set(s, "memory.dtypes.gradients", "bf16");
  d.set(s, "memory.dtypes.reduce", "bf16");
}

// dist_muon assigns whole layers to ranks: states are sharded, and their owners step them.
void optimizer(Draft& d, const Setting& s, std::string_view key) {
  optimizer_name(d, s, key);
  if (plain_text(s.value) == "dist_muon") {
    d.set(s, "parallelism.sharding", "zero1");
  } else if (plain_text(s.value) == "sgd") {
    if (const Setting* momentum = d.find("sgd-momentum")) {
      d.set(*momentum, "memory.momentum", momentum->value);
    } else {
      d.assume(d.defaults(), "memory.momentum", scalar("0.9", d.defaults()));
    }
  }
}

// The number of layers whose activations are offloaded.
void offloaded_layers(Draft& d, const Setting& s, std::string_view key) {
  const auto layers = d.integer(s.name);
  if (layers && *layers > 0) {
    d.set(s, key, "cpu");
    d.set(s, "memory.offload.activation_layers", *layers);
  }
}

// Offloads the share --optimizer-offload-fraction of the optimizer, 1 unless stated.
void offloaded_optimizer(Draft& d, const Setting& s, std::string_view key) {
  if (!is_true(s)) {
    return;
  }
  const auto share = d.number("optimizer-offload-fraction");
  if (!share || *share == 1) {
    d.set(s, key, "cpu");
  } else {
    d.set(s, std::string(key) + ".to", "cpu");
    d.set(s, std::string(key) + ".ratio", *share);
  }
}

void megatron_precision(Draft& d) {
  const Setting* format = d.first({"fp8-format", "fp8-e4m3", "fp8-hybrid"});
  if (format != nullptr && is_true(*format)) {
    const std::string recipe = d.word("fp8-recipe");
    const Setting* named = d.find("fp8-recipe");
    d.set(named != nullptr ? *named : *format, "workload.precision",
          recipe == "mxfp8"       ? "mxfp8"
          : recipe == "blockwise" ? "fp8_block"
                                  : "fp8");
  } else if (const Setting* four = d.find("fp4-format"); four != nullptr && is_true(*four)) {
    d.set(*four, "workload.precision", "nvfp4");
  } else if (d.on("bf16")) {
    d.set(*d.present("bf16"), "workload.precision", "bf16");
  } else if (d.on("fp16")) {
    d.set(*d.present("fp16"), "workload.precision", "fp16");
  } else {
    d.assume(d.defaults(), "workload.precision", scalar("fp32", d.defaults()));
  }
}

// Weights of products stand and are gathered in the bits in which they are computed.
void narrow_parameters(Draft& d) {
  const std::string precision = d.text("workload.precision");
  const auto read = [&](std::string_view option, bool fits, const char* format, const char* why) {
    const Setting* asked = d.find(option);
    if (asked != nullptr && !fits) {
      d.meaningless(*asked, why);
    } else if (asked != nullptr) {
      d.set(*asked, "memory.dtypes.parameters", is_true(*asked) ? format : "bf16");
    }
  };
  read("fp8-param-gather", precision.find("fp8") != std::string::npos, "fp8",
       "products are not in 8 bits");
  read("fp4-param-gather", precision == "nvfp4", "nvfp4", "products are not in 4 bits");
}

}  // namespace

const std::vector<Rule>& megatron_kernel_rules() {
  static const std::vector<Rule> rules = {
      flag("bf16"),
      flag("fp16"),
      {"fp8-format", "workload.precision", later},
      spelling("fp8", "fp8-format"),
      flag("fp8-hybrid"),
      flag("fp8-e4m3"),
      {"fp8-recipe", "workload.precision", later},
      {"fp8-param-gather", "memory.dtypes.parameters", later},
      spelling("fp8-param", "fp8-param-gather"),
      {"fp4-param-gather", "memory.dtypes.parameters", later},
      spelling("fp4-param", "fp4-param-gather"),
      {"fp4-format", "workload.precision", later},
      spelling("fp4", "fp4-format"),
      flag("accumulate-allreduce-grads-in-fp32", "", fp32_gradients),
      flag("grad-reduce-in-bf16", "", bf16_gradients),
      flag("use-precision-aware-optimizer", "system.precision_aware_optimizer", yes),
      {"main-grads-dtype", "memory.dtypes.gradients"},
      {"main-params-dtype", "memory.dtypes.master"},
      {"exp-avg-dtype", "memory.dtypes.moments"},
      {"exp-avg-sq-dtype", "memory.dtypes.moments"},
      {"attention-backend", "kernels.attention", megatron_attention},
      flag("use-flash-attn", "kernels.attention", if_true<"flash2">),
      flag("use-flash-attn-v2", "kernels.attention", if_true<"flash2">),
      flag("use-flash-attn-triton", "kernels.attention", if_true<"flash2">),
      {"transformer-impl", "system.transformer_engine", megatron_implementation},
      flag("use-transformer-engine-op-fuser", "kernels.fused_casts", yes),
      {"no-masked-softmax-fusion", "system.fused_softmax", no},
      {"no-bias-gelu-fusion", "system.fused_bias_activation", no},
      {"bias-activation-fusion", "system.fused_bias_activation", yes},
      {"no-bias-swiglu-fusion", "system.fused_bias_activation", no},
      {"no-bias-dropout-fusion", "system.fused_bias_dropout_add", no},
      {"no-rope-fusion", "system.fused_rotary", no},
      {"apply-rope-fusion", "system.fused_rotary", yes},
      {"use-fast-rope", "system.fused_rotary", yes},
      {"use-fast-rms-norm", "system.fused_norm", yes},
      {"no-gradient-accumulation-fusion", "system.gradient_accumulation_fusion", no},
      {"cross-entropy-loss-fusion", "kernels.loss", fused_loss, true, "vocab_parallel"},
      {"cross-entropy-fusion-impl", "kernels.loss", loss_kernel},
      {"enable-cuda-graph", "kernels.cuda_graph", yes},
      {"external-cuda-graph", "kernels.cuda_graph", yes},
      {"cuda-graph-impl", "kernels.cuda_graph", yes},
      {"cuda-graph-modules", "kernels.cuda_graph_modules", later},
      // core 0.19.2 transformer/transformer_config.py:1091: "Deprecated: renamed".
      spelling("cuda-graph-scope", "cuda-graph-modules"),
      {"optimizer", "memory.optimizer", optimizer},
      {"recompute-granularity", "memory.recompute", later},
      {"recompute-method", "memory.recompute", later},
      {"recompute-num-layers", "memory.recompute", later},
      {"recompute-modules", "memory.recompute", later},
      flag("recompute-activations", "memory.recompute", if_true<"selective">),
      {"num-microbatches-with-partial-activation-checkpoints", "memory.whole_micro_batches"},
      flag("moe-layer-recompute", "memory.recompute", later),
      flag("kaimm-recompute-mlp-activation-func", "memory.recompute", later),
      flag("kaimm-recompute-norm", "memory.recompute", later),
      flag("checkpoint-activations", "memory.recompute", if_true<"full">),
      {"cpu-offloading-num-layers", "memory.offload.activations", offloaded_layers},
      flag("optimizer-cpu-offload", "memory.offload.optimizer", offloaded_optimizer),
      {"optimizer-offload-fraction", "memory.offload.optimizer", later},
      flag("fine-grained-activation-offloading", "memory.offload.activations",
           [](Draft& d, const Setting& s, std::string_view key) {
             const auto share = d.number("activation-offload-fraction");
             if (is_true(s) && (!share || *share == 1)) {
               d.set(s, key, "cpu");
             } else if (is_true(s) && *share > 0) {
               d.set(s, std::string(key) + ".to", "cpu");
               d.set(s, std::string(key) + ".ratio", *share);
             }
           }),
      {"activation-offload-fraction", "memory.offload.activations", later},
      {"disable-parameter-transpose-cache", "memory.kept_weight_copies", no},
      {"offload-modules", "memory.offload.activation_modules", later},
  };
  return rules;
}

namespace {

// megatron-core 0.19.2, transformer/transformer_config.py, offload_modules: of fine-grained
// offloading.
void offloaded_modules(Draft& d) {
  constexpr const char* kKey = "memory.offload.activation_modules";
  static const std::set<std::string> known = {"attn_norm", "qkv_linear", "core_attn", "attn_proj",
                                              "mlp_norm",  "expert_fc1", "moe_act"};
  const Setting* s = d.present("offload-modules");
  if (s == nullptr) {
    return;
  }
  if (says_nothing(*s)) {
    d.meaningless(*s, "not set");
    return;
  }
  const std::vector<std::string> modules = words_of(s->value);
  const bool all = std::all_of(modules.begin(), modules.end(),
                               [](const std::string& name) { return known.contains(name); });
  if (modules.empty() || !d.on("fine-grained-activation-offloading")) {
    d.meaningless(*s, "nothing is offloaded");
  } else if (!all) {
    d.unmodelled(*s,
                 "of other modules than memory.offload.activation_modules has, everything that "
                 "a layer saves is offloaded");
  } else {
    d.set(*s, kKey, word_list(modules, s->origin));
  }
}

}  // namespace

void bridge_fused_loss(Draft& d, const Setting& s, std::string_view key) {
  const Setting* fuses = d.find(kLossFusion);
  const Setting* kernel = d.find(kFusedLoss);
  if (fuses == nullptr || is_true(*fuses)) {
    d.set(s, key,
          kernel != nullptr && plain_text(kernel->value) == "native" ? "vocab_parallel_fused"
                                                                     : "fused");
  }
}

void finish_megatron_kernels(Draft& d) {
  finish_megatron_graphs(d);
  megatron_precision(d);
  narrow_parameters(d);
  finish_bf16_layers(d);
  finish_megatron_recompute(d);
  offloaded_modules(d);
}

}  // namespace stepcast::interop::launch
