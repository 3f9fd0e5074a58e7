#include "fsdp.h"

#include <fmt/format.h>

#include <algorithm>

#include "stepcast/config/config.h"
#include "why.h"

namespace stepcast::interop::launch {
namespace {

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

// Ranks of a node, over which hybrid sharding shards.
std::int64_t node_ranks(Draft& d) {
  const std::int64_t all = d.ranks();
  const std::int64_t nodes = d.request().nodes > 0 ? d.request().nodes : d.size("cluster.nodes", 1);
  return nodes > 0 ? all / nodes : 0;
}

}  // namespace

void fsdp_strategy(Draft& d, const Setting& s, std::string_view) {
  fsdp_strategy_word(d, s, plain_text(s.value));
}

void fsdp_strategy_word(Draft& d, const Setting& s, const std::string& word) {
  const std::string kind = upper(word);
  const auto shard = [&](bool keep, bool hybrid) {
    d.set(s, "parallelism.sharding", "zero3");
    if (keep) {
      // Gathered parameters are kept until the backward pass: ShardingStrategy.SHARD_GRAD_OP.
      d.set(s, "parallelism.reshard_after_forward", false);
    }
    if (hybrid && node_ranks(d) > 0) {
      d.set(s, "parallelism.shard_size", node_ranks(d));
    }
  };
  if (kind == "FULL_SHARD" || kind == "1") {
    shard(false, false);
  } else if (kind == "SHARD_GRAD_OP" || kind == "2") {
    shard(true, false);
  } else if (kind == "NO_SHARD" || kind == "3") {
    d.set(s, "parallelism.sharding", "none");
  } else if (kind == "HYBRID_SHARD" || kind == "4") {
    shard(false, true);
  } else if (kind == "HYBRID_SHARD_ZERO2" || kind == "_HYBRID_SHARD_ZERO2" || kind == "5") {
    shard(true, true);
  } else {
    d.refuse(s, fmt::format("{} is '{}'; expected FULL_SHARD | SHARD_GRAD_OP | NO_SHARD | "
                            "HYBRID_SHARD | HYBRID_SHARD_ZERO2",
                            s.shown, plain_text(s.value)));
  }
}

void fsdp_backward_prefetch(Draft& d, const Setting& s, std::string_view) {
  const std::string kind = upper(plain_text(s.value));
  if (kind == "BACKWARD_PRE") {
    d.set(s, "system.backward_prefetch", "explicit");
  } else if (kind == "BACKWARD_POST") {
    d.set(s, "system.backward_prefetch", "implicit");
  } else if (kind == "NO_PREFETCH" || kind == "NONE") {
    d.set(s, "system.backward_prefetch", "none");
  } else {
    d.refuse(s, fmt::format("{} is '{}'; expected BACKWARD_PRE | BACKWARD_POST | NO_PREFETCH",
                            s.shown, plain_text(s.value)));
  }
}

void fsdp_forward_prefetch(Draft& d, const Setting& s, std::string_view) {
  d.set(s, "system.forward_prefetch", is_true(s) ? "explicit" : "implicit");
}

void full_recompute(Draft& d, const Setting& s, std::string_view key) {
  if (is_true(s)) {
    d.set(s, key.empty() ? "memory.recompute" : key, "full");
  }
}

void fsdp_wrapping(Draft& d, const Setting& s, std::string_view) {
  if (upper(plain_text(s.value)) == "TRANSFORMER_BASED_WRAP") {
    d.meaningless(s, why::kUnit);
  } else {
    d.unmodelled(s, "a unit is a layer");
  }
}

void fsdp_version(Draft& d, const Setting& s, std::string_view) {
  const bool second = plain_text(s.value) == "2";
  if (second && d.preset == "transformers") {
    d.preset = "transformers-fsdp2";
    d.meaningless(s, "the system is transformers-fsdp2");
  } else if (second && d.preset == "trl") {
    d.meaningless(s, "the system's own");
  } else if (second) {
    d.set(s, "system.flat_parameters", false);
  } else if (d.preset == "trl") {
    d.preset = "trl-fsdp1";
    d.meaningless(s, "the system is trl-fsdp1");
  }
}

}  // namespace stepcast::interop::launch
