// What lives in host memory or on NVMe instead of the GPU.
#include <fmt/core.h>

#include "tables.h"

namespace stepcast::config {

using job::Memory;
using job::Offload;
using job::OffloadPart;
using job::OffloadTarget;

namespace {

const Table<OffloadPart>& part_table() {
  static const Table<OffloadPart> table = {
      choice("to", &OffloadPart::to,
             "Where it is kept: cpu (host memory), nvme, or none (the GPU)."),
      number("ratio", &OffloadPart::ratio, 0, 1, "The share that is offloaded."),
  };
  return table;
}

// "cpu", or {to: cpu, ratio: 0.5}. A ratio of 0 is none.
Field<Offload> part(const char* key, OffloadPart Offload::*member, const char* description) {
  const Words<OffloadTarget> words = all_words<OffloadTarget>();
  return custom<Offload>(
      key, description, any_of({enum_schema(words.names()), object_schema(specs(part_table()))}),
      [=](Reader& r, const Value& v, Offload& o) {
        OffloadPart one;
        if (v.kind == Value::Kind::map) {
          if (v.find("to") == nullptr) {
            r.fault(v,
                    fmt::format("{} names no target; expected {{to: cpu, ratio: 0.5}}", r.path()));
            return;
          }
          read_table(r, v, part_table(), one);
        } else if (const auto to = read_word(r, v, words)) {
          one.to = *to;
        }
        o.*member = one.to == OffloadTarget::none || one.ratio == 0 ? OffloadPart{} : one;
      },
      [=](const Offload& o) -> std::optional<Value> {
        const OffloadPart& one = o.*member;
        return one.ratio == 1 ? tree::string(to_string(one.to)) : write_table(part_table(), one);
      });
}

const Table<Offload>& offload_table() {
  static const Table<Offload> table = {
      part(
          "optimizer", &Offload::optimizer,
          "Moments and master weights; the offloaded share of the optimizer step runs on the CPU."),
      part("parameters", &Offload::parameters,
           "Parameters, which are fetched before use; only with zero3."),
      part("gradients", &Offload::gradients, "Accumulated gradients; left out: as the optimizer."),
      part(
          "activations", &Offload::activations,
          "Activations that a forward pass saves, or with recomputation the inputs that are kept."),
      integer(
          "activation_layers", &Offload::activation_layers, 0, kManyLayers,
          "Number of layers of a stage, from its first, whose activations are offloaded; 0: all."),
      // As Megatron-LM's --offload-modules names them.
      some_of("activation_modules", &Offload::activation_modules,
              {"attn_norm", "qkv_linear", "core_attn", "attn_proj", "mlp_norm", "expert_fc1",
               "moe_act"},
              "a list of modules such as [expert_fc1, moe_act]",
              "Only activations that these modules save; left out: those of all modules."),
      integer("tiling", &Offload::tiling, 1, 4096,
              "Memory-centric tiling: number of tiles into which each linear layer is cut; they "
              "are gathered and run one after the other (ZeRO-Infinity, DeepSpeed's TiledLinear)."),
      integer("prefetch", &Offload::prefetch, 0, 64,
              "Number of units fetched ahead of the one that computes; 0: each is fetched when it "
              "is about to run."),
      quantity("page", &Offload::page, false,
               "Size of the pages that hold a rank's states contiguously and are copied as a whole "
               "(Angel-PTM); 0: no pages."),
      quantity("chunk", &Offload::chunk, false,
               "Size of the chunks in which states are copied (DeepSpeed's sub-groups). Gemini "
               "also stores and gathers parameters in them, cuts no tensor, and keeps the last "
               "chunks on the GPU; 0: unit by unit."),
      boolean("pinned", &Offload::pinned,
              "Host memory is page-locked; false: pageable, which copies more slowly while the "
              "host waits."),
      boolean("overlap", &Offload::overlap, "Copies overlap compute, on streams of their own."),
  };
  return table;
}

}  // namespace

Field<Memory> offload() {
  const std::vector<Spec> children = specs(offload_table());
  Field<Memory> f = custom<Memory>(
      "offload", "What lives outside the GPU: none, or {optimizer: cpu, parameters: nvme, ...}.",
      any_of({enum_schema({"none"}), object_schema(children)}),
      [](Reader& r, const Value& v, Memory& m) {
        if (is_word(v, "none")) {
          m.offload = {};
        } else if (v.kind != Value::Kind::map) {
          r.expected(v, "none, or a map such as {optimizer: cpu}");
        } else {
          read_table(r, v, offload_table(), m.offload);
        }
      },
      [](const Memory& m) {
        Value all = write_table(offload_table(), m.offload);
        static const std::string nothing = tree::to_json(write_table(offload_table(), Offload{}));
        return tree::to_json(all) == nothing ? tree::string("none") : std::move(all);
      });
  f.spec.section = true;
  f.spec.children = children;
  return f;
}

}  // namespace stepcast::config
