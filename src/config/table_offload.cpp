// What lives in host memory or on NVMe instead of the GPU.
#include "tables.h"

namespace stepcast::config {

using job::Memory;
using job::Offload;
using job::OffloadPart;
using job::OffloadTarget;

namespace {

const Table<OffloadPart>& part_table() {
  static const Table<OffloadPart> table = {
      choice("to", &OffloadPart::to, "Where it lives."),
      number("ratio", &OffloadPart::ratio, 0, 1, "The share that is offloaded."),
  };
  return table;
}

// "cpu", or {to: cpu, ratio: 0.5}. A ratio of 0 is none.
Field<Offload> part(std::string key, OffloadPart Offload::*member, std::string description) {
  Field<Offload> f;
  const Words<OffloadTarget> words = all_words<OffloadTarget>();
  f.spec = {std::move(key),
            std::move(description),
            any_of({enum_schema(words.names()), object_schema(specs(part_table()))}),
            false,
            false,
            {}};
  f.read = [=](Reader& r, const Value& v, Offload& o) {
    OffloadPart one;
    if (v.kind == Value::Kind::map) {
      if (v.find("to") == nullptr) {
        r.fault(v, fmt::format("{} names no target; expected {{to: cpu, ratio: 0.5}}", r.path()));
        return;
      }
      read_table(r, v, part_table(), one);
    } else if (const auto to = read_word(r, v, words)) {
      one.to = *to;
    }
    o.*member = one.to == OffloadTarget::none || one.ratio == 0 ? OffloadPart{} : one;
  };
  f.write = [=](const Offload& o) -> std::optional<Value> {
    const OffloadPart& one = o.*member;
    return one.ratio == 1 ? tree::string(words.name(one.to)) : write_table(part_table(), one);
  };
  return f;
}

// As Megatron-LM's --offload-modules names them.
const std::vector<std::string>& modules() {
  static const std::vector<std::string> names = {
      "attn_norm", "qkv_linear", "core_attn", "attn_proj", "mlp_norm", "expert_fc1", "moe_act"};
  return names;
}

Field<Offload> activation_modules() {
  Field<Offload> f;
  Value list = type_schema("array");
  tree::put(list, "items", enum_schema(modules()));
  f.spec = {"activation_modules",
            "Only what these modules read and keep; left out: all.",
            std::move(list),
            false,
            false,
            {}};
  f.read = [](Reader& r, const Value& v, Offload& o) {
    if (v.kind != Value::Kind::sequence) {
      r.expected(v, "a list of modules such as [expert_fc1, moe_act]");
      return;
    }
    o.activation_modules.clear();
    for (const Value& one : v.items) {
      if (read_word(r, one, modules(), {})) {
        o.activation_modules.push_back(one.scalar);
      }
    }
  };
  f.write = [](const Offload& o) -> std::optional<Value> {
    std::vector<Value> items;
    for (const std::string& name : o.activation_modules) {
      items.push_back(tree::string(name));
    }
    return tree::list(std::move(items));
  };
  return f;
}

const Table<Offload>& offload_table() {
  static const Table<Offload> table = {
      part("optimizer", &Offload::optimizer,
           "Moments and master weights; this share of the optimizer runs on the CPU."),
      part("parameters", &Offload::parameters,
           "Parameters, fetched before use; only where units are gathered (zero3)."),
      part("gradients", &Offload::gradients,
           "Gradients as accumulated; left out: they follow the optimizer."),
      part("activations", &Offload::activations,
           "What a pass saves, or the inputs that recomputation keeps."),
      integer("activation_layers", &Offload::activation_layers, 0, kManyLayers,
              "Activations of the first so many layers of a stage only; 0: of all."),
      activation_modules(),
      integer(
          "tiling", &Offload::tiling, 1, 4096,
          "Memory-centric tiling: each linear of a layer runs as so many in turn, each gathered "
          "by itself (ZeRO-Infinity, DeepSpeed's TiledLinear)."),
      integer("prefetch", &Offload::prefetch, 0, 64,
              "Units fetched ahead of the one that computes; 0: when their turn comes."),
      quantity("page", &Offload::page, false,
               "Pages of so much hold a rank's states one behind the other, and move whole "
               "(Angel-PTM); 0: as they are."),
      quantity("chunk", &Offload::chunk, false,
               "States move in chunks of so much; Gemini's also store and gather parameters so, no "
               "tensor cut, and keep the last ones on the GPU (DeepSpeed: sub-groups); 0: unit by "
               "unit."),
      boolean("pinned", &Offload::pinned,
              "Page-locked host memory; pageable memory copies slower, and the host waits."),
      boolean("overlap", &Offload::overlap, "Copies run beside compute, on streams of their own."),
  };
  return table;
}

}  // namespace

Field<Memory> offload() {
  Field<Memory> f;
  const std::vector<Spec> children = specs(offload_table());
  f.spec = {"offload",
            "What lives outside the GPU: none, or {optimizer: cpu, parameters: nvme, ...}.",
            any_of({enum_schema({"none"}), object_schema(children)}),
            true,
            false,
            children};
  f.read = [](Reader& r, const Value& v, Memory& m) {
    if (is_word(v, "none")) {
      m.offload = {};
    } else if (v.kind != Value::Kind::map) {
      r.expected(v, "none, or a map such as {optimizer: cpu}");
    } else {
      read_table(r, v, offload_table(), m.offload);
    }
  };
  f.write = [](const Memory& m) -> std::optional<Value> {
    Value all = write_table(offload_table(), m.offload);
    static const std::string nothing = tree::to_json(write_table(offload_table(), Offload{}));
    return tree::to_json(all) == nothing ? tree::string("none") : std::move(all);
  };
  return f;
}

}  // namespace stepcast::config
