#include "parallelism.h"

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "sizes.h"

namespace stepcast::interop::launch {

void zero_stage(Draft& draft, const Setting& setting, std::string_view key) {
  const std::string stage = plain_text(setting.value);
  if (stage.size() != 1 || stage[0] < '0' || stage[0] > '3') {
    draft.refuse(setting, fmt::format("{} is '{}'; expected 0 to 3", setting.shown, stage));
  } else {
    draft.set(setting, key,
              stage == "0" ? std::string_view("none") : std::string_view("zero" + stage));
  }
}

void ulysses(Draft& draft, const Setting& setting, std::string_view) {
  if (plain_text(setting.value) != "1") {
    draft.set(setting, "parallelism.context.size", setting.value);
    draft.set(setting, "parallelism.context.kind", "a2a");
  }
}

void hybrid_sharding(Draft& d, const Setting* replicas, const Setting* shards) {
  const std::int64_t r = replicas == nullptr ? 1 : d.integer(replicas->name).value_or(1);
  const std::int64_t s = shards == nullptr ? -1 : d.integer(shards->name).value_or(-1);
  if (r < 1 || (s < 1 && s != -1)) {
    const Setting& at = r < 1 ? *replicas : *shards;
    d.refuse(at, fmt::format("{} is '{}'; expected a size{}", at.shown, plain_text(at.value),
                             r < 1 ? "" : ", or -1 for the remaining ranks"));
    return;
  }
  if (s > 0) {
    d.set(*shards, "parallelism.data", product(r, s));
  }
  // The ranks of a sequence share one copy (torchtitan 0.2.2, distributed/parallel_dims.py: fsdp is
  // dp_shard x cp; accelerate 1.15, parallelism_config.py: dp_shard_cp).
  const std::int64_t context = d.size("parallelism.context.size", 1);
  if (s == 1 && context == 1) {
    d.set(*shards, "parallelism.sharding", "none");
    return;
  }
  if (s >= 1 && !d.stated("parallelism.sharding")) {
    d.set(*shards, "parallelism.sharding", "zero3");
  }
  if (r == 1) {
    return;
  }
  std::int64_t size = s;
  if (size == -1) {
    const std::int64_t ranks = d.data_ranks();
    if (ranks == 0) {
      return;
    }
    if (ranks % r != 0) {
      d.refuse(*replicas,
               fmt::format("{} {} does not divide {} data-parallel ranks; expected a divisor",
                           replicas->shown, r, ranks));
      return;
    }
    size = ranks / r;
  }
  d.set(*replicas, "parallelism.shard_size", product(size, context));
}

void tidy_context(Draft& d) {
  if (d.value("parallelism.context") == nullptr || d.size("parallelism.context.size", 1) != 1) {
    return;
  }
  const Value* given = d.value("parallelism.context.size");
  const Value one = given != nullptr ? *given : scalar("1", d.defaults());
  d.drop("parallelism.context");
  d.assume(one.origin, "parallelism.context", one);
}

}  // namespace stepcast::interop::launch
