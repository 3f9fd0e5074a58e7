// What of a unit's forward pass runs again inside its backward pass, operator by operator, and what
// is therefore not kept in between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "stepcast/model/operators.h"

namespace stepcast::lower {

struct Redo {
  // again: what other operators keep of the result stays. dropped: the result is made again for
  // them as well (Megatron-LM's CheckpointWithoutOutput).
  enum class Kind : std::uint8_t { no, again, dropped } kind = Kind::no;
  double share = 1;  // of a product's columns: some of the products that one operator stands for
};

// By operator of the graph; empty: nothing runs again.
using Redone = std::vector<Redo>;

inline bool runs_again(const Redone& redone, std::size_t i) {
  return i < redone.size() && redone[i].kind != Redo::Kind::no;
}

// Core attention, as `recompute: selective` says.
Redone core_attention_again(const model::OperatorGraph& graph);

// The operator that makes a saved tensor; nothing where the unit reads it from outside.
std::optional<std::size_t> maker_of(const model::OperatorGraph& graph, std::uint32_t storage);

// Storages that are made again instead of kept.
std::set<std::uint32_t> made_again(const model::OperatorGraph& graph, const Redone& redone);

// Bytes that are kept so that operators can run again although no operator saves them: results
// that only they read.
std::int64_t kept_to_redo(const model::OperatorGraph& graph, const Redone& redone);

// What runs again together, in order, and the operator before whose backward it does: the first, in
// the order of the backward pass, that needs anything of it.
struct Replay {
  std::vector<std::size_t> operators;
  std::size_t before = 0;
};
std::vector<Replay> replays(const model::OperatorGraph& graph, const Redone& redone);

}  // namespace stepcast::lower
