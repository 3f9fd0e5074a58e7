// What is kept, recomputed, and in which number format.
#include "tables.h"

namespace stepcast::config {

using job::Memory;
using job::Optimizer;
using job::Recompute;
using job::StateDTypes;

namespace {

const Words<job::DType>& state_formats() {
  static const Words<job::DType> words = formats({"fp32", "bf16", "fp16", "fp8", "int8"});
  return words;
}

const std::vector<std::pair<std::string, Recompute::Kind>> kCounted = {
    {"every", Recompute::Kind::every},
    {"uniform", Recompute::Kind::uniform},
    {"block", Recompute::Kind::block}};

void read_recompute(Reader& r, const Value& v, Recompute& out) {
  const std::string what = "none | selective | full | {every: n} | {uniform: n} | {block: n}";
  if (v.kind == Value::Kind::scalar) {
    const std::vector<std::pair<std::string, Recompute::Kind>> words = {
        {"none", Recompute::Kind::none},
        {"selective", Recompute::Kind::selective},
        {"full", Recompute::Kind::full}};
    if (const auto i = read_word(r, v, {"none", "selective", "full"}, {})) {
      out = {words[*i].second, 1};
    }
    return;
  }
  if (v.kind != Value::Kind::map || v.entries.size() != 1) {
    r.expected(v, what);
    return;
  }
  const auto& entry = v.entries.front();
  for (const auto& [key, kind] : kCounted) {
    if (entry.key == key) {
      Reader::Scope scope(r, key);
      r.record(entry.value.origin);
      if (const auto n = read_integer(r, entry.value, 1, kManyLayers)) {
        out = {kind, static_cast<int>(*n)};
      }
      return;
    }
  }
  if (entry.key == "modules" || entry.key == "per_op" || entry.key == "optimal") {
    r.fault(entry.origin,
            fmt::format("recompute by '{}' is not modelled yet; expected {}", entry.key, what));
    return;
  }
  r.unknown(entry, {"every", "uniform", "block"});
}

Field<Memory> recompute() {
  Field<Memory> f;
  std::vector<Value> alternatives = {enum_schema({"none", "selective", "full"})};
  for (const auto& [key, kind] : kCounted) {
    Value n = type_schema("integer");
    tree::put(n, "minimum", tree::number(std::int64_t{1}));
    Value properties = tree::map();
    tree::put(properties, key, std::move(n));
    Value object = type_schema("object");
    tree::put(object, "properties", std::move(properties));
    tree::put(object, "required", tree::list({tree::string(key)}));
    tree::put(object, "additionalProperties", tree::boolean(false));
    alternatives.push_back(std::move(object));
  }
  f.spec = {"recompute",
            "Activation recomputation: selective (attention core), full (every layer), every n-th "
            "layer, uniform units of n layers, or the first n layers of a chunk (block).",
            any_of(std::move(alternatives)),
            false,
            false,
            {}};
  f.spec.one_of = true;
  f.read = [](Reader& r, const Value& v, Memory& m) { read_recompute(r, v, m.recompute); };
  f.write = [](const Memory& m) -> std::optional<Value> {
    for (const auto& [key, kind] : kCounted) {
      if (m.recompute.kind == kind) {
        Value v = tree::map();
        tree::put(v, key, tree::number(std::int64_t{m.recompute.layers}));
        return v;
      }
    }
    return tree::string(m.recompute.kind == Recompute::Kind::none        ? "none"
                        : m.recompute.kind == Recompute::Kind::selective ? "selective"
                                                                         : "full");
  };
  return f;
}

const Table<StateDTypes>& state_table() {
  static const Table<StateDTypes> table = {
      choice("parameters", &StateDTypes::parameters, state_formats(),
             "As kept between steps; left out: that of the precision."),
      choice("gradients", &StateDTypes::gradients, state_formats(),
             "Main gradients as accumulated."),
      choice("reduce", &StateDTypes::reduce, state_formats(), "Gradients on the wire."),
      choice("moments", &StateDTypes::moments, state_formats(), "Optimizer moments."),
      optional_choice("master", &StateDTypes::master, state_formats(),
                      "The optimizer's copy of the parameters; null: none."),
  };
  return table;
}

}  // namespace

const Table<Memory>& memory_table() {
  static const Table<Memory> table = {
      recompute(),
      offload(),
      choice("optimizer", &Memory::optimizer,
             Words<Optimizer>{{{"adamw", Optimizer::adamw},
                               {"sgd", Optimizer::sgd},
                               {"adamw_8bit", Optimizer::adamw_8bit},
                               {"adamw_bf16", Optimizer::adamw_bf16},
                               {"adafactor", Optimizer::adafactor},
                               {"lion", Optimizer::lion},
                               {"muon", Optimizer::muon}},
                              {}},
             "The optimizer."),
      number("momentum", &Memory::momentum, 0, 1, "Of sgd; 0: it keeps no state."),
      section("dtypes", &Memory::dtypes, state_table(), "Number formats of the training state."),
      choice("allocator", &Memory::allocator,
             Words<Memory::Allocator>{
                 {{"default", Memory::Allocator::caching},
                  {"expandable_segments", Memory::Allocator::expandable_segments}},
                 {}},
             "The framework's memory allocator."),
  };
  return table;
}

}  // namespace stepcast::config
