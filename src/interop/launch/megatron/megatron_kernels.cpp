// Megatron-LM's flags of number formats, kernels, recomputation and optimizer.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "../options/optimizers.h"
#include "../options/rule.h"
#include "megatron.h"

namespace stepcast::interop::launch {
namespace {

void megatron_flash(Draft& d, const Setting& s, std::string_view key) {
  if (is_true(s)) {
    d.set(s, key, "flash2");
  }
}

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

void fused_loss(Draft& d, const Setting& s, std::string_view key) {
  if (is_true(s)) {
    d.set(s, key, "fused");
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

void full(Draft& d, const Setting& s, std::string_view key) {
  if (is_true(s)) {
    d.set(s, key, "full");
  }
}

void megatron_selective(Draft& d, const Setting& s, std::string_view key) {
  if (is_true(s)) {
    d.set(s, key, "selective");
  }
}

// Flags for the recomputation of one module: Megatron-LM's --moe-layer-recompute, Megatron-Kwai's
// activations and norms.
void forked_modules(Draft& d) {
  Value list;
  list.kind = Value::Kind::sequence;
  const Setting* last = nullptr;
  for (const auto& [flag, module] : {std::pair{"moe-layer-recompute", "moe"},
                                     {"kaimm-recompute-mlp-activation-func", "act"},
                                     {"kaimm-recompute-norm", "norm"}}) {
    if (const Setting* s = d.present(flag); s != nullptr && is_true(*s)) {
      list.items.push_back(scalar(module, s->origin));
      last = s;
    }
  }
  if (last != nullptr) {
    list.origin = last->origin;
    d.drop("memory.recompute");
    d.set(*last, "memory.recompute.modules", list);
  }
}

void recompute(Draft& d) {
  const Setting* granularity = d.find("recompute-granularity");
  const Setting* method = d.find("recompute-method");
  if (granularity == nullptr) {
    forked_modules(d);
    return;
  }
  for (const char* flag :
       {"moe-layer-recompute", "kaimm-recompute-mlp-activation-func", "kaimm-recompute-norm"}) {
    if (const Setting* s = d.present(flag); s != nullptr) {
      d.unmodelled(*s, "recompute-granularity states what is recomputed");
    }
  }
  const std::string kind = plain_text(granularity->value);
  if (kind == "selective") {
    // core_attn is the default of recompute-modules.
    const Setting* modules = d.find("recompute-modules");
    if (modules != nullptr && modules->value.kind == Value::Kind::sequence &&
        modules->value.items.empty()) {
      d.set(*modules, "memory.recompute", "none");
    } else if (modules == nullptr || plain_text(modules->value) == "core_attn") {
      d.set(*granularity, "memory.recompute", "selective");
    } else {
      d.drop("memory.recompute");
      Value list = modules->value;
      if (list.kind != Value::Kind::sequence) {
        list = Value();
        list.kind = Value::Kind::sequence;
        list.origin = modules->origin;
        list.items = {scalar(plain_text(modules->value), modules->origin)};
      }
      d.set(*modules, "memory.recompute.modules", list);
    }
    return;
  }
  if (kind != "full") {
    d.refuse(*granularity,
             fmt::format("{} is '{}'; expected full | selective", granularity->shown, kind));
    return;
  }
  if (method == nullptr) {
    d.set(*granularity, "memory.recompute", "full");
    return;
  }
  const std::string how = plain_text(method->value);
  if (how != "uniform" && how != "block") {
    d.refuse(*method, fmt::format("{} is '{}'; expected uniform | block", method->shown, how));
    return;
  }
  const std::string key = "memory.recompute." + how;
  d.drop("memory.recompute");
  if (const Setting* layers = d.find("recompute-num-layers")) {
    d.set(*layers, key, layers->value);
  } else {
    d.set(*method, key, 1);
  }
}

void megatron_precision(Draft& d) {
  const Setting* format = d.first({"fp8-format", "fp8", "fp8-e4m3", "fp8-hybrid"});
  if (format != nullptr && is_true(*format)) {
    const std::string recipe = d.word("fp8-recipe");
    const Setting* named = d.find("fp8-recipe");
    d.set(named != nullptr ? *named : *format, "workload.precision",
          recipe == "mxfp8"       ? "mxfp8"
          : recipe == "blockwise" ? "fp8_block"
                                  : "fp8");
  } else if (const Setting* four = d.first({"fp4-format", "fp4"});
             four != nullptr && is_true(*four)) {
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
  const auto read = [&](const std::vector<std::string_view>& options, bool fits, const char* format,
                        const char* why) {
    const Setting* asked = d.first(options);
    if (asked != nullptr && !fits) {
      d.meaningless(*asked, why);
    } else if (asked != nullptr) {
      d.set(*asked, "memory.dtypes.parameters", is_true(*asked) ? format : "bf16");
    }
  };
  read({"fp8-param-gather", "fp8-param"}, precision.find("fp8") != std::string::npos, "fp8",
       "products are not in 8 bits");
  read({"fp4-param-gather", "fp4-param"}, precision == "nvfp4", "nvfp4",
       "products are not in 4 bits");
}

}  // namespace

const std::vector<Rule>& megatron_kernel_rules() {
  static const std::vector<Rule> rules = {
      flag("bf16"),
      flag("fp16"),
      {"fp8-format", "workload.precision", later},
      {"fp8", "workload.precision", later},
      flag("fp8-hybrid"),
      flag("fp8-e4m3"),
      {"fp8-recipe", "workload.precision", later},
      {"fp8-param-gather", "memory.dtypes.parameters", later},
      {"fp8-param", "memory.dtypes.parameters", later},
      {"fp4-param-gather", "memory.dtypes.parameters", later},
      {"fp4-param", "memory.dtypes.parameters", later},
      {"fp4-format", "workload.precision", later},
      {"fp4", "workload.precision", later},
      flag("accumulate-allreduce-grads-in-fp32", "", fp32_gradients),
      flag("grad-reduce-in-bf16", "", bf16_gradients),
      flag("use-precision-aware-optimizer", "system.precision_aware_optimizer", yes),
      {"main-grads-dtype", "memory.dtypes.gradients"},
      {"main-params-dtype", "memory.dtypes.master"},
      {"exp-avg-dtype", "memory.dtypes.moments"},
      {"exp-avg-sq-dtype", "memory.dtypes.moments"},
      {"attention-backend", "kernels.attention", megatron_attention},
      flag("use-flash-attn", "kernels.attention", megatron_flash),
      flag("use-flash-attn-v2", "kernels.attention", megatron_flash),
      flag("use-flash-attn-triton", "kernels.attention", megatron_flash),
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
      flag("cross-entropy-loss-fusion", "kernels.loss", fused_loss),
      {"enable-cuda-graph", "kernels.cuda_graph", yes},
      {"external-cuda-graph", "kernels.cuda_graph", yes},
      {"cuda-graph-impl", "kernels.cuda_graph", yes},
      {"cuda-graph-scope", "kernels.cuda_graph_modules", later},
      {"cuda-graph-modules", "kernels.cuda_graph_modules", later},
      {"optimizer", "memory.optimizer", optimizer},
      {"recompute-granularity", "memory.recompute", later},
      {"recompute-method", "memory.recompute", later},
      {"recompute-num-layers", "memory.recompute", later},
      {"recompute-modules", "memory.recompute", later},
      flag("recompute-activations", "memory.recompute", megatron_selective),
      {"num-microbatches-with-partial-activation-checkpoints", "memory.whole_micro_batches"},
      flag("moe-layer-recompute", "memory.recompute", later),
      flag("kaimm-recompute-mlp-activation-func", "memory.recompute", later),
      flag("kaimm-recompute-norm", "memory.recompute", later),
      flag("checkpoint-activations", "memory.recompute", full),
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

// The words of a list, or of a text with commas or blanks between them.
std::vector<std::string> words_of(const Value& v) {
  if (v.kind == Value::Kind::sequence) {
    std::vector<std::string> out;
    for (const Value& item : v.items) {
      out.push_back(plain_text(item));
    }
    return out;
  }
  std::vector<std::string> out(1);
  for (const char c : plain_text(v)) {
    if (c == ',' || c == ' ') {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  std::erase(out, "");
  return out;
}

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
  Value list;
  list.kind = Value::Kind::sequence;
  list.origin = s->origin;
  bool all = true;
  for (const std::string& name : words_of(s->value)) {
    all = all && known.contains(name);
    list.items.push_back(scalar(name, s->origin));
  }
  if (list.items.empty() || !d.on("fine-grained-activation-offloading")) {
    d.meaningless(*s, "nothing is offloaded");
  } else if (!all) {
    d.unmodelled(*s,
                 "of other modules than memory.offload.activation_modules has, everything that "
                 "a layer saves is offloaded");
  } else {
    d.set(*s, kKey, list);
  }
}

// What graphs capture (megatron-core 0.16.1, transformer/transformer_config.py:776 to :1720;
// 0.19.2, :1031 to :1064): the whole iteration, modules of each layer, or, without a word, whole
// layers.
void graphs(Draft& d) {
  const Setting* impl = nullptr;
  for (const char* name : {"cuda-graph-impl", "external-cuda-graph", "enable-cuda-graph"}) {
    if (const Setting* s = d.find(name); s != nullptr && is_true(*s)) {
      impl = impl == nullptr ? s : impl;
    }
  }
  const std::string kind = impl == nullptr ? "" : plain_text(impl->value);
  if (impl != nullptr && impl->name == "cuda-graph-impl" && kind != "local" &&
      kind != "transformer_engine" && kind != "full_iteration") {
    d.refuse(*impl, fmt::format("{} is '{}'; expected none | local | transformer_engine | "
                                "full_iteration",
                                impl->shown, kind));
    return;
  }
  bool step = kind == "full_iteration";
  std::vector<std::string> modules;
  const Setting* scope = nullptr;
  for (const char* name : {"cuda-graph-modules", "cuda-graph-scope"}) {
    const Setting* s = d.find(name);
    if (s == nullptr) {
      continue;
    }
    if (impl == nullptr) {
      d.meaningless(*s, "no graph is asked for");
      continue;
    }
    scope = s;
    for (const std::string& word : words_of(s->value)) {
      if (word == "full_iteration") {
        step = true;
      } else if (word != "full" && word != "full_iteration_inference") {
        modules.push_back(word);
      }
    }
  }
  if (step && !modules.empty()) {
    d.meaningless(*scope, "a graph of the whole iteration captures every module");
  }
  if (impl == nullptr || step) {
    return;
  }
  if (modules.empty()) {
    modules = {"attn", "mamba", "mlp", "moe"};
  }
  // Megatron-LM's own implementation does not tell these two apart (0.16.1, :1726 to :1735).
  const auto named = [&](const char* module) {
    return std::find(modules.begin(), modules.end(), module) != modules.end();
  };
  const bool local = impl->name == "enable-cuda-graph" || kind == "local";
  for (const char* module : {"moe_router", "moe_preprocess"}) {
    if (local && (named("moe_router") || named("moe_preprocess")) && !named(module)) {
      modules.emplace_back(module);
    }
  }
  const Setting& from = scope != nullptr ? *scope : *impl;
  Value list;
  list.kind = Value::Kind::sequence;
  list.origin = from.origin;
  for (const std::string& module : modules) {
    list.items.push_back(scalar(module, from.origin));
  }
  d.set(from, "kernels.cuda_graph_modules", list);
}

}  // namespace

void finish_megatron_kernels(Draft& d) {
  graphs(d);
  megatron_precision(d);
  narrow_parameters(d);
  finish_bf16_layers(d);
  recompute(d);
  offloaded_modules(d);
}

}  // namespace stepcast::interop::launch
