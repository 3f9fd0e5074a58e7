// What is kept in memory, in which number formats, and what is recomputed.
#include <fmt/ranges.h>

#include "tables.h"

namespace stepcast::config {

using job::Memory;
using job::Optimizer;
using job::Recompute;
using job::StateDTypes;

namespace {

constexpr double kMostMargin = 0.95;

const Words<DType>& parameter_formats() {
  static const Words<DType> words =
      some_words({DType::fp32, DType::bf16, DType::fp16, DType::fp8, DType::int8, DType::nvfp4});
  return words;
}

const Words<DType>& state_formats() {
  static const Words<DType> words =
      some_words({DType::fp32, DType::bf16, DType::fp16, DType::fp8, DType::int8});
  return words;
}

// Kinds that are a word alone, and kinds with a number of layers.
const Words<RecomputeKind>& plain_kinds() {
  static const Words<RecomputeKind> words =
      some_words({RecomputeKind::none, RecomputeKind::selective, RecomputeKind::full});
  return words;
}
const Words<RecomputeKind>& counted_kinds() {
  static const Words<RecomputeKind> words =
      some_words({RecomputeKind::every, RecomputeKind::uniform, RecomputeKind::block});
  return words;
}

// Megatron-LM's --recompute-modules, the whole attention (PaddleNLP's full_attn), and the norms and
// activations that its forks name.
const std::vector<std::string> kModules = {"core_attn", "attn", "layernorm", "mla_up_proj",
                                           "mlp",       "moe",  "moe_act",   "shared_experts",
                                           "norm",      "act",  "mhc"};
const std::vector<std::string> kPolicies = {"sac", "products"};

void read_modules(Reader& r, const Value& v, Recompute& out) {
  if (v.kind != Value::Kind::sequence || v.items.empty()) {
    r.expected(v, fmt::format("one or more of {}", fmt::join(kModules, " | ")));
    return;
  }
  out = {Recompute::Kind::modules, 1};
  for (const Value& one : v.items) {
    if (const auto i = read_word(r, one, kModules, {})) {
      out.modules.push_back(kModules[*i]);
    }
  }
}

void read_policy(Reader& r, const Value& v, Recompute& out) {
  if (const auto i = read_word(r, v, kPolicies, {})) {
    out = {Recompute::Kind::per_op, 1};
    out.policy = kPolicies[*i];
  }
}

// torch.compile's activation_memory_budget; 0 would be full recomputation, and 1 none.
constexpr double kLeastShare = 0.001;
constexpr double kMostShare = 0.999;

void read_memory_budget(Reader& r, const Value& v, Recompute& out) {
  if (const auto share = read_number(r, v, kLeastShare, kMostShare)) {
    out = {Recompute::Kind::per_op, 1};
    out.policy = "products";
    out.share = *share;
  }
}

void read_optimal(Reader& r, const Value& v, Recompute& out) {
  const std::string what = "{budget: 60 GB}";
  if (v.kind != Value::Kind::map || v.entries.size() != 1) {
    r.expected(v, what);
    return;
  }
  const auto& entry = v.entries.front();
  if (entry.key != "budget") {
    r.unknown(entry, {"budget"});
    return;
  }
  Reader::Scope scope(r, "budget");
  r.record(entry.value.origin);
  out = {Recompute::Kind::optimal, 1};
  if (const auto bytes = read_quantity(r, entry.value, Bytes{})) {
    if (bytes->count() == 0) {
      r.expected(entry.value, "a value above zero");
    }
    out.budget = *bytes;
  }
}

void read_recompute(Reader& r, const Value& v, Recompute& out) {
  const std::string what =
      "none | selective | full | {every: n} | {uniform: n} | {block: n} | {modules: [...]} | "
      "{per_op: sac | products} | {memory_budget: 0.5} | {optimal: {budget: ...}}";
  if (v.kind == Value::Kind::scalar) {
    if (const auto kind = read_word(r, v, plain_kinds())) {
      out = {*kind, 1};
    }
    return;
  }
  if (v.kind != Value::Kind::map || v.entries.size() != 1) {
    r.expected(v, what);
    return;
  }
  const auto& entry = v.entries.front();
  for (const auto& [key, kind] : counted_kinds().words) {
    if (entry.key == key) {
      Reader::Scope scope(r, key);
      r.record(entry.value.origin);
      if (const auto n = read_integer(r, entry.value, 1, kManyLayers)) {
        out = {kind, static_cast<int>(*n)};
      }
      return;
    }
  }
  const std::vector<std::pair<std::string, void (*)(Reader&, const Value&, Recompute&)>> others = {
      {"modules", read_modules},
      {"per_op", read_policy},
      {"memory_budget", read_memory_budget},
      {"optimal", read_optimal}};
  for (const auto& [key, read] : others) {
    if (entry.key == key) {
      Reader::Scope scope(r, key);
      r.record(entry.value.origin);
      read(r, entry.value, out);
      return;
    }
  }
  r.unknown(entry, {"every", "uniform", "block", "modules", "per_op", "memory_budget", "optimal"});
}

// {key: VALUE} and nothing else.
Value only_key(const std::string& key, Value value) {
  Value properties = tree::map();
  tree::put(properties, key, std::move(value));
  Value object = type_schema("object");
  tree::put(object, "properties", std::move(properties));
  tree::put(object, "required", tree::list({tree::string(key)}));
  tree::put(object, "additionalProperties", tree::boolean(false));
  return object;
}

Value one_key(const std::string& key, Value value) {
  Value out = tree::map();
  tree::put(out, key, std::move(value));
  return out;
}

Field<Memory> recompute() {
  std::vector<Value> alternatives = {enum_schema(plain_kinds().names())};
  for (const auto& [key, kind] : counted_kinds().words) {
    alternatives.push_back(only_key(key, integer_schema(1)));
  }
  Value modules = array_schema(enum_schema(kModules));
  tree::put(modules, "minItems", tree::number(std::int64_t{1}));
  alternatives.push_back(only_key("modules", std::move(modules)));
  alternatives.push_back(only_key("per_op", enum_schema(kPolicies)));
  Value share = type_schema("number");
  tree::put(share, "minimum", tree::number(kLeastShare));
  tree::put(share, "maximum", tree::number(kMostShare));
  alternatives.push_back(only_key("memory_budget", std::move(share)));
  alternatives.push_back(only_key("optimal", only_key("budget", quantity_schema("bytes"))));
  Field<Memory> f = custom<Memory>(
      "recompute",
      "Activation recomputation: selective (attention core), full (every layer), every n-th "
      "layer, uniform units of n layers, the first n layers of a chunk (block), modules as "
      "Megatron-LM names them, operators by torchtitan's selective policy (per_op), what "
      "torch.compile runs again within a share of what it would keep (memory_budget), or the "
      "optimum "
      "for a budget of allocated bytes per GPU (Beaumont et al., 1911.13214).",
      any_of(std::move(alternatives)),
      [](Reader& r, const Value& v, Memory& m) { read_recompute(r, v, m.recompute); },
      [](const Memory& m) {
        for (const auto& [key, kind] : counted_kinds().words) {
          if (m.recompute.kind == kind) {
            return one_key(key, tree::number(std::int64_t{m.recompute.layers}));
          }
        }
        switch (m.recompute.kind) {
          case Recompute::Kind::modules:
            return one_key("modules", tree::strings(m.recompute.modules));
          case Recompute::Kind::per_op:
            if (m.recompute.share < 1) {
              return one_key("memory_budget", tree::number(m.recompute.share));
            }
            return one_key("per_op", tree::string(m.recompute.policy));
          case Recompute::Kind::optimal:
            return one_key("optimal", one_key("budget", write_quantity(m.recompute.budget)));
          default:
            break;
        }
        return tree::string(to_string(m.recompute.kind));
      });
  f.spec.one_of = true;
  return f;
}

const Table<StateDTypes>& state_table() {
  static const Table<StateDTypes> table = {
      choice("parameters", &StateDTypes::parameters, parameter_formats(),
             "Format in which parameters are kept between steps; left out: that of the precision."),
      choice("gradients", &StateDTypes::gradients, state_formats(),
             "Format in which main gradients are accumulated."),
      choice("reduce", &StateDTypes::reduce, state_formats(),
             "Format in which gradients are reduced over the network."),
      choice("moments", &StateDTypes::moments, state_formats(),
             "Format of the optimizer's moments."),
      optional_choice(
          "master", &StateDTypes::master, state_formats(),
          "Format of the optimizer's master copy of the parameters; null: there is none."),
  };
  return table;
}

}  // namespace

const Table<Memory>& memory_table() {
  static const Table<Memory> table = {
      recompute(),
      integer("whole_micro_batches", &Memory::whole_micro_batches, 0, kManyBatches,
              "Number of micro-batches in flight on a stage that keep all activations, while the "
              "others recompute (Korthikanti et al., 2205.05198, appendix C)."),
      boolean("kept_weight_copies", &Memory::kept_weight_copies,
              "Transformer Engine keeps copies of weights in the products' format, those that are "
              "turned over for input gradients included, from one micro-batch to the next. false: "
              "16-bit weights are cast for each micro-batch and stand until its backward pass, "
              "8-bit ones are turned over for each input gradient "
              "(disable_parameter_transpose_cache, of 8-bit weights before Transformer Engine 2)."),
      boolean("fp8_activation_input", &Memory::fp8_activation_input,
              "Inputs of gated activations are kept in fp8 for the backward pass (Megatron-LM's "
              "activation_func_fp8_input_store)."),
      boolean("fp12_attention_output", &Memory::fp12_attention_output,
              "The result of fused attention is kept once, in 12 bits (E5M6), for its own backward "
              "pass and for the product behind it, where products run in 8 bits (DeepSeek-V3's "
              "report, arXiv 2412.19437, 3.3.2); otherwise in 16 bits, beside the product's copy."),
      offload(),
      choice("optimizer", &Memory::optimizer, "The optimizer."),
      number("momentum", &Memory::momentum, 0, 1, "Momentum of sgd; 0: it keeps no state."),
      boolean("optimizer_in_backward", &Memory::optimizer_in_backward,
              "Each weight is stepped as soon as its gradient is there, which is then given up "
              "(torchtune's optimizer_in_bwd); of one rank and one micro-batch a step."),
      section("dtypes", &Memory::dtypes, state_table(), "Number formats of the training state."),
      choice("allocator", &Memory::allocator, "The framework's memory allocator."),
      boolean("stream_waits", &Memory::stream_waits,
              "A block that another stream used is free only once that stream has come past the "
              "use; false: at once, as under CUDA_LAUNCH_BLOCKING=1 or on a null GPU, where the "
              "device is never behind the host."),
      number("margin", &Memory::margin, 0, kMostMargin,
             "Share of a device's usable memory that is left free, such as 0.05 or 5%: a job that "
             "needs it does not fit (torch.cuda.set_per_process_memory_fraction is one less it)."),
  };
  return table;
}

}  // namespace stepcast::config
