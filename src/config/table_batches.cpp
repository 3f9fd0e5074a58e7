// How many micro-batches each data-parallel rank runs: even, a list, or a map by device.
#include <algorithm>

#include "tables.h"

namespace stepcast::config {

using job::Workload;
using Kind = job::MicroBatches::Kind;

Field<Workload> micro_batches() {
  return custom<Workload>(
      "micro_batches",
      "Micro-batches of a step on each data-parallel rank: even; a list of one number per rank; or "
      "by the device on which the rank's stages run, {h100-sxm: 22, a100-80gb-sxm: 10}. Gradients "
      "are reduced once, when all ranks are done.",
      any_of(
          {enum_schema({"even"}), array_schema(integer_schema(1)), map_schema(integer_schema(1))}),
      [](Reader& r, const Value& v, Workload& w) {
        w.micro_batches = {};
        if (is_null(v)) {
          return;
        }
        if (v.kind == Value::Kind::sequence) {
          w.micro_batches.kind = Kind::by_rank;
          for (const Value& one : v.items) {
            const auto n = read_integer(r, one, 1, kManyBatches);
            w.micro_batches.ranks.push_back(n ? static_cast<int>(*n) : 1);
          }
        } else if (v.kind == Value::Kind::map) {
          w.micro_batches.kind = Kind::by_device;
          for (const auto& entry : v.entries) {
            Reader::Scope scope(r, entry.key);
            const auto n = read_integer(r, entry.value, 1, kManyBatches);
            w.micro_batches.devices[entry.key] = n ? static_cast<int>(*n) : 1;
          }
        } else if (v.scalar != "even") {
          r.expected(v, "even, a list of numbers, or numbers by device");
        }
      },
      [](const Workload& w) -> std::optional<Value> {
        switch (w.micro_batches.kind) {
          case Kind::even:
            return std::nullopt;
          case Kind::by_rank:
            return tree::integers(w.micro_batches.ranks);
          case Kind::by_device: {
            Value v = tree::map();
            for (const auto& [device, n] : w.micro_batches.devices) {
              tree::put(v, device, tree::number(std::int64_t{n}));
            }
            return v;
          }
        }
        return std::nullopt;
      });
}

}  // namespace stepcast::config
